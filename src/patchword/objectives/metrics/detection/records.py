"""The objects and the detections of one image, as average precision takes them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths


@dataclass(frozen=True, eq=False)
class ImageObjects:
    """The true objects of one image.

    boxes: (objects, 4) as x1, y1, x2, y2 in pixels. labels: (objects,), from 0. areas: (objects,), the area of the
    annotation, which decides whether an object is small, medium or large; in COCO it is the area of the mask, not of
    the box. crowd: (objects,), True for a region of many objects: detections inside it do not count. masks: one per
    object, required for the average precision of masks.
    """

    boxes: NDArray[np.float64]
    labels: NDArray[np.int64]
    areas: NDArray[np.float64]
    crowd: NDArray[np.bool_]
    masks: Sequence[RunLengths] | None = None

    def __post_init__(self) -> None:
        number = len(self.labels)
        _store(self, "boxes", _floats(self.boxes).reshape(-1, 4), number)
        _store(self, "labels", np.asarray(self.labels, dtype=np.int64), number)
        _store(self, "areas", _floats(self.areas), number)
        _store(self, "crowd", np.asarray(self.crowd, dtype=bool), number)
        _check_masks(self.masks, number)


@dataclass(frozen=True, eq=False)
class ImageDetections:
    """The detections of one image.

    boxes: (detections, 4) as x1, y1, x2, y2 in pixels. labels: (detections,), from 0. scores: (detections,); of equal
    scores the first detection comes first. masks: one per detection, required for the average precision of masks.
    """

    boxes: NDArray[np.float64]
    labels: NDArray[np.int64]
    scores: NDArray[np.float64]
    masks: Sequence[RunLengths] | None = None

    def __post_init__(self) -> None:
        number = len(self.labels)
        _store(self, "boxes", _floats(self.boxes).reshape(-1, 4), number)
        _store(self, "labels", np.asarray(self.labels, dtype=np.int64), number)
        _store(self, "scores", _floats(self.scores), number)
        _check_masks(self.masks, number)


def _floats(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _store(record: object, name: str, values: NDArray[np.generic], number: int) -> None:
    if len(values) != number:
        raise UserError(f"{name} and labels have different lengths", expected=number, got=len(values))
    if not np.isfinite(values).all():
        raise UserError(f"{name} contains a non-finite value", expected="finite numbers")
    object.__setattr__(record, name, values)


def _check_masks(masks: Sequence[RunLengths] | None, number: int) -> None:
    if masks is not None and len(masks) != number:
        raise UserError("masks and labels have different lengths", expected=number, got=len(masks))
