"""COCO's average precision (AP) and average recall (AR) of boxes and masks, equal to pycocotools to the last bit.

AP is the mean precision at 101 recall points, 10 IoU thresholds (0.5 to 0.95) and all classes that have objects. COCO
counts at most 100 detections per image and class. Its definition is the one of pycocotools' COCOeval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.objectives.metrics.detection.matching import SIZES, THRESHOLDS, Flags, match
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from patchword.objectives.metrics.detection.tables import Ranked, Regions, detections_table, objects_table

Size = Literal["all", "small", "medium", "large"]

LIMITS = (1, 10, 100)
RECALLS: NDArray[np.float64] = np.linspace(0.0, 1.0, 101)
UNDEFINED = -1.0
"""COCO's value of a number without objects: a class that has none, or none of a size."""

_SPACING = np.spacing(1)


@dataclass(frozen=True, eq=False)
class AveragePrecision:
    """Precision and recall of detections; `UNDEFINED` (-1) where a class has no objects.

    precision: (thresholds, recalls, classes, sizes), the largest precision at a recall of `RECALLS` or more, with 100
    detections per image and class. recall: (thresholds, classes, sizes, limits), the recall with at most 1, 10 and 100
    detections. Sizes are all, small (area up to 32^2), medium and large (area from 96^2).
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]

    def ap(self, size: Size = "all", threshold: float | None = None, label: int | None = None) -> float:
        """Return the AP of all classes or of one label. threshold: one of 0.5, 0.55, ..., 0.95; None: their mean."""
        values = self.precision[_thresholds(threshold), :, :, SIZES.index(size)]
        return _mean(values if label is None else values[:, :, label])

    def ar(self, size: Size = "all", limit: Literal[1, 10, 100] = 100, label: int | None = None) -> float:
        """Return the average recall with at most `limit` detections per image and class."""
        values = self.recall[:, :, SIZES.index(size), LIMITS.index(limit)]
        return _mean(values if label is None else values[:, label])

    def per_class(self, size: Size = "all", threshold: float | None = None) -> NDArray[np.float64]:
        """Return the AP of each class."""
        return np.array([self.ap(size, threshold, label) for label in range(self.precision.shape[2])])

    def curve(self, label: int, threshold: float = 0.5, size: Size = "all") -> NDArray[np.float64]:
        """Return the precision of one class at each recall of `RECALLS`."""
        curve: NDArray[np.float64] = self.precision[_thresholds(threshold), :, label, SIZES.index(size)][0]
        return curve

    def summary(self) -> dict[str, float]:
        """Return the twelve numbers of COCO, in its order."""
        return {
            "AP": self.ap(),
            "AP50": self.ap(threshold=0.5),
            "AP75": self.ap(threshold=0.75),
            "AP small": self.ap("small"),
            "AP medium": self.ap("medium"),
            "AP large": self.ap("large"),
            "AR 1": self.ar(limit=1),
            "AR 10": self.ar(limit=10),
            "AR 100": self.ar(),
            "AR small": self.ar("small"),
            "AR medium": self.ar("medium"),
            "AR large": self.ar("large"),
        }


def average_precision(
    truth: Sequence[ImageObjects], found: Sequence[ImageDetections], classes: int, regions: Regions = "boxes"
) -> AveragePrecision:
    """Compare detections with the true objects. truth, found: one per image, in the same order.

    An image without objects or without detections has empty arrays; its detections count as wrong. Boxes are compared
    as x1, y1, x2 - x1, y2 - y1 in float64.
    """
    if not len(truth):
        raise UserError("there are no images to evaluate", expected="one or more images", got="none")
    if len(truth) != len(found):
        raise UserError("objects and detections are of different images", expected=len(truth), got=len(found))
    objects = objects_table(truth, classes, regions)
    detections = detections_table(found, classes, regions, LIMITS[-1])
    matches = match(detections, objects)
    images = len(truth)
    label = objects.group // images
    counted = np.stack([np.bincount(label[~one], minlength=classes) for one in matches.ignored_objects.T], axis=1)
    right = matches.matched & ~matches.ignored
    wrong = ~matches.matched & ~matches.ignored
    precision = np.full((len(THRESHOLDS), len(RECALLS), classes, len(SIZES)), UNDEFINED)
    recall = np.full((len(THRESHOLDS), classes, len(SIZES), len(LIMITS)), UNDEFINED)
    for index, order in enumerate(_order_per_class(detections, images, classes)):
        if counted[index].any():
            _fill_precision(precision[:, :, index], right[order], wrong[order], counted[index])
            _fill_recall(recall[:, index], right[order], detections.rank[order], counted[index])
    return AveragePrecision(precision, recall)


def _order_per_class(detections: Ranked, images: int, classes: int) -> list[NDArray[np.int64]]:
    """Return the detections of each class by score; of equal scores those of earlier images come first."""
    label = detections.group // images
    order = np.lexsort((-detections.scores, label))
    return np.split(order, np.searchsorted(label, np.arange(1, classes)))


def _fill_precision(precision: NDArray[np.float64], right: Flags, wrong: Flags, counted: NDArray[np.int64]) -> None:
    """Write the precision of one class, (thresholds, recalls, sizes). right, wrong: (detections, thresholds, sizes)."""
    true = np.cumsum(np.ascontiguousarray(right.transpose(1, 2, 0)), axis=2, dtype=np.float64)
    false = np.cumsum(np.ascontiguousarray(wrong.transpose(1, 2, 0)), axis=2, dtype=np.float64)
    best = true / (false + true + _SPACING)
    best = np.maximum.accumulate(best[:, :, ::-1], axis=2)[:, :, ::-1]
    for size in np.flatnonzero(counted):
        recalls = true[:, size] / counted[size]
        for threshold, recall in enumerate(recalls):
            place = np.searchsorted(recall, RECALLS, side="left")
            reached = place < len(recall)
            precision[threshold, :, size] = 0.0
            precision[threshold, reached, size] = best[threshold, size, place[reached]]


def _fill_recall(
    recall: NDArray[np.float64], right: Flags, rank: NDArray[np.int64], counted: NDArray[np.int64]
) -> None:
    """Write the recall of one class, (thresholds, sizes, limits)."""
    known = counted > 0
    for index, limit in enumerate(LIMITS):
        recall[:, known, index] = right[rank < limit].sum(axis=0)[:, known] / counted[known]


def _thresholds(threshold: float | None) -> slice | NDArray[np.int64]:
    if threshold is None:
        return slice(None)
    found = np.flatnonzero(np.isclose(THRESHOLDS, threshold))
    if not len(found):
        raise UserError("COCO has no such IoU threshold", expected="0.5, 0.55, ..., 0.95", got=threshold)
    return found


def _mean(values: NDArray[np.float64]) -> float:
    """Return the mean of the defined values, summed in COCO's order."""
    defined = values[values > UNDEFINED]
    return float(np.mean(defined)) if defined.size else UNDEFINED
