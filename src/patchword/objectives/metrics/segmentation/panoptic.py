"""Panoptic quality (Kirillov et al., 2019), with COCO's rules for void pixels and crowds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from patchword.core.errors import UserError

VOID = 0  # segment id of unlabelled pixels
_MATCH = 0.5  # a pair of segments with a larger IoU matches; there is at most one such pair per segment
_LARGEST = 2**31  # ids are smaller
Ids = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Segment:
    """category: its class. is_crowd: a region with many objects, which are not separated."""

    category: int
    is_crowd: bool = False


@dataclass(frozen=True)
class PanopticMap:
    """The segments of an image. ids: (height, width), the segment of each pixel, 0 if it is void. segments: by id."""

    ids: Ids
    segments: Mapping[int, Segment]

    def areas(self) -> dict[int, int]:
        """Return the pixels of each id, void included; an id without a segment is an error."""
        ids, counts = np.unique(self.ids, return_counts=True)
        if len(ids) and (ids[0] < 0 or ids[-1] >= _LARGEST):
            raise UserError("ids of segments", expected=f"0 to {_LARGEST - 1:,}", got=[int(ids[0]), int(ids[-1])])
        found = {int(one): int(count) for one, count in zip(ids, counts, strict=True)}
        unknown = [one for one in found if one != VOID and one not in self.segments]
        if unknown:
            raise UserError("ids of pixels without a segment", expected="one segment per id", got=unknown[:5])
        return found


class Quality(NamedTuple):
    """Panoptic quality = segmentation quality (mean IoU of matches) x recognition quality (F1 score)."""

    panoptic: float
    segmentation: float
    recognition: float


@dataclass(frozen=True)
class PanopticCounts:
    """Sums per category, which can be added over images.

    iou: of the matches. true_positives: matches (TP). false_positives: predictions without one (FP). false_negatives:
    segments of the target without one (FN).
    """

    iou: npt.NDArray[np.float64]
    true_positives: npt.NDArray[np.int64]
    false_positives: npt.NDArray[np.int64]
    false_negatives: npt.NDArray[np.int64]

    @classmethod
    def zeros(cls, categories: int) -> Self:
        """Return counts of no image. categories: their number; a category is an index below it."""
        return cls(np.zeros(categories), *(np.zeros(categories, np.int64) for _ in range(3)))

    def __add__(self, other: "PanopticCounts") -> "PanopticCounts":
        return PanopticCounts(
            self.iou + other.iou,
            self.true_positives + other.true_positives,
            self.false_positives + other.false_positives,
            self.false_negatives + other.false_negatives,
        )

    def by_category(self) -> list[Quality]:
        """Return the quality of each category; NaN if it has no segment."""
        with np.errstate(invalid="ignore"):
            total = self.true_positives + 0.5 * self.false_positives + 0.5 * self.false_negatives
            panoptic, recognition = self.iou / total, self.true_positives / total
            segmentation = np.where(self.true_positives > 0, self.iou / np.maximum(self.true_positives, 1), 0.0)
        segmentation[total == 0] = np.nan
        return [Quality(*map(float, row)) for row in zip(panoptic, segmentation, recognition, strict=True)]

    def mean(self, categories: Iterable[int] | None = None) -> Quality:
        """Return the mean over categories that have a segment. categories: things, or stuff; all by default."""
        found = self.by_category()
        chosen = found if categories is None else [found[one] for one in categories]
        rows = np.array([row for row in chosen if not np.isnan(row.panoptic)]).reshape(-1, 3)
        return Quality(*map(float, rows.mean(axis=0))) if len(rows) else Quality(*[float("nan")] * 3)


def panoptic_counts(predicted: PanopticMap, target: PanopticMap, categories: int) -> PanopticCounts:
    """Match the segments of one image, and count them.

    A prediction and a segment of the same category match if their IoU is above 0.5; pixels of the prediction that are
    void in the target do not count in the union. Crowd segments do not match and are not false negatives. A prediction
    without a match is not counted if more than half of it lies on void or on a crowd of its category.
    """
    if predicted.ids.shape != target.ids.shape:
        raise UserError("panoptic maps of different sizes", expected=target.ids.shape, got=predicted.ids.shape)
    _check([*predicted.segments.values(), *target.segments.values()], categories)
    areas, wanted, shared = predicted.areas(), target.areas(), _intersections(predicted.ids, target.ids)
    counts = PanopticCounts.zeros(categories)
    matched: tuple[set[int], set[int]] = set(), set()
    for (one, other), pixels in shared.items():
        if VOID in (one, other) or target.segments[other].is_crowd:
            continue
        category = target.segments[other].category
        union = areas[one] + wanted[other] - pixels - shared.get((one, VOID), 0)
        if predicted.segments[one].category == category and pixels / union > _MATCH:
            counts.true_positives[category] += 1
            counts.iou[category] += pixels / union
            matched[0].add(one)
            matched[1].add(other)
    for other, segment in target.segments.items():
        if not segment.is_crowd and other not in matched[1]:
            counts.false_negatives[segment.category] += 1
    for one in predicted.segments.keys() - matched[0]:
        if not _is_excused(one, predicted, target, areas.get(one, 0), shared):
            counts.false_positives[predicted.segments[one].category] += 1
    return counts


def _is_excused(
    one: int, predicted: PanopticMap, target: PanopticMap, area: int, shared: Mapping[tuple[int, int], int]
) -> bool:
    """Return whether more than half of a prediction lies on void, or on a crowd of its category."""
    category = predicted.segments[one].category
    crowds = [other for other, segment in target.segments.items() if segment == Segment(category, is_crowd=True)]
    outside = sum(shared.get((one, other), 0) for other in (VOID, *crowds))
    return area > 0 and outside / area > _MATCH


def _intersections(first: Ids, second: Ids) -> dict[tuple[int, int], int]:
    """Return the pixels of each pair of ids that lie on each other."""
    pairs = first.reshape(-1).astype(np.int64) * _LARGEST + second.reshape(-1)
    unique, counts = np.unique(pairs, return_counts=True)
    each = zip(unique // _LARGEST, unique % _LARGEST, counts, strict=True)
    return {(int(one), int(other)): int(count) for one, other, count in each}


def _check(segments: Sequence[Segment], categories: int) -> None:
    wrong = sorted({one.category for one in segments if not 0 <= one.category < categories})
    if wrong:
        raise UserError("categories of segments", expected=f"0 to {categories - 1}", got=wrong[:5])
