"""The objects and the detections of all images in flat arrays, sorted into groups of one class and one image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects

Regions = Literal["boxes", "masks"]
"""What is compared by IoU."""


@dataclass(frozen=True, eq=False)
class Table:
    """Objects or detections of all images. group: label * images + image, ascending."""

    group: NDArray[np.int64]
    corners: NDArray[np.float64]  # x, y
    sizes: NDArray[np.float64]  # width, height
    areas: NDArray[np.float64]  # of the annotation, or of the detected region
    masks: Sequence[RunLengths]

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True, eq=False)
class Objects(Table):
    crowd: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Ranked(Table):
    """Detections in the order of their scores within a group; rank: from 0."""

    scores: NDArray[np.float64]
    rank: NDArray[np.int64]


def objects_table(images: Sequence[ImageObjects], classes: int, regions: Regions) -> Objects:
    group = _groups([one.labels for one in images], classes, "an object")
    order = np.argsort(group, kind="stable")
    corners, sizes, masks = _regions(images, regions, order)
    areas = np.concatenate([one.areas for one in images])[order]
    crowd = np.concatenate([one.crowd for one in images])[order]
    return Objects(group[order], corners, sizes, areas, masks, crowd)


def detections_table(images: Sequence[ImageDetections], classes: int, regions: Regions, limit: int) -> Ranked:
    """limit: detections that are kept per group, those with the highest scores."""
    group = _groups([one.labels for one in images], classes, "a detection")
    scores = np.concatenate([one.scores for one in images])
    order = np.lexsort((-scores, group))
    rank = _rank(group[order])
    order, rank = order[rank < limit], rank[rank < limit]
    corners, sizes, masks = _regions(images, regions, order)
    areas = sizes[:, 0] * sizes[:, 1]
    if regions == "masks":
        areas = np.array([mask.area for mask in masks], dtype=np.float64)
    return Ranked(group[order], corners, sizes, areas, masks, scores[order], rank)


def _regions(
    images: Sequence[ImageObjects] | Sequence[ImageDetections], regions: Regions, order: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], Sequence[RunLengths]]:
    """Return the corners, the sizes and the masks. The boxes of masks are those around their set pixels."""
    if regions == "boxes":
        boxes = np.concatenate([one.boxes for one in images])[order]
        return boxes[:, :2], boxes[:, 2:] - boxes[:, :2], ()
    found: list[RunLengths] = []
    for number in range(len(images)):
        one = images[number]
        if one.masks is None and len(one.labels):
            raise UserError(f"image {number} has no masks", hint="the average precision of masks needs one per object")
        found.extend(one.masks or ())
    masks = [found[index] for index in order]
    boxes = np.array([mask.box for mask in masks], dtype=np.float64).reshape(-1, 4)
    return boxes[:, :2], boxes[:, 2:] - boxes[:, :2], masks


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
