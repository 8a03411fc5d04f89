"""The objects and the detections of all images in flat arrays, sorted into groups of one class and one image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.masks.batch import MaskBatch
from patchword.core.masks.run_lengths import RunLengths
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects

Regions = Literal["boxes", "masks"]
"""What is compared by IoU."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes as COCO stores them: the corner x, y and the size width, height."""

    corners: NDArray[np.float64]
    sizes: NDArray[np.float64]

    @property
    def areas(self) -> NDArray[np.float64]:
        return self.sizes[:, 0] * self.sizes[:, 1]


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects of all images. group: label * images + image, ascending; areas: those of the annotations."""

    group: NDArray[np.int64]
    regions: Boxes | MaskBatch
    areas: NDArray[np.float64]
    crowd: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Ranked:
    """The detections of all images, by group and then by score; rank: the place within the group, from 0."""

    group: NDArray[np.int64]
    regions: Boxes | MaskBatch
    scores: NDArray[np.float64]
    rank: NDArray[np.int64]


def objects_table(images: Sequence[ImageObjects], classes: int, regions: Regions) -> Objects:
    group = _groups([one.labels for one in images], classes, "an object")
    order = np.argsort(group, kind="stable")
    areas = np.concatenate([one.areas for one in images])[order]
    crowd = np.concatenate([one.crowd for one in images])[order]
    return Objects(group[order], _regions(images, regions, order), areas, crowd)


def detections_table(images: Sequence[ImageDetections], classes: int, regions: Regions, limit: int) -> Ranked:
    """limit: detections that are kept per group, those with the highest scores."""
    group = _groups([one.labels for one in images], classes, "a detection")
    scores = np.concatenate([one.scores for one in images])
    order = np.lexsort((-scores, group))
    rank = _rank(group[order])
    order, rank = order[rank < limit], rank[rank < limit]
    return Ranked(group[order], _regions(images, regions, order), scores[order], rank)


def _regions(
    images: Sequence[ImageObjects] | Sequence[ImageDetections], regions: Regions, order: NDArray[np.int64]
) -> Boxes | MaskBatch:
    if regions == "boxes":
        boxes = np.concatenate([one.boxes for one in images])[order]
        return Boxes(boxes[:, :2], boxes[:, 2:] - boxes[:, :2])
    found: list[RunLengths] = []
    for number in range(len(images)):
        one = images[number]
        if one.masks is None and len(one.labels):
            raise UserError(f"image {number} has no masks", hint="the average precision of masks needs one per object")
        found.extend(one.masks or ())
    return MaskBatch.join([found[index] for index in order])


def _groups(labels: Sequence[NDArray[np.int64]], classes: int, what: str) -> NDArray[np.int64]:
    label = np.concatenate(labels)
    wrong = label[(label < 0) | (label >= classes)]
    if len(wrong):
        raise UserError(f"{what} has an unknown label", expected=f"0 to {classes - 1}", got=int(wrong[0]))
    image = np.repeat(np.arange(len(labels)), [len(one) for one in labels])
    return label * len(labels) + image


def _rank(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each element within its run of equal values."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return np.arange(len(group)) - np.repeat(starts, np.diff(starts, append=len(group)))
