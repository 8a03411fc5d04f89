"""Losses of detectors, one value per element: the caller weights, sums and divides."""

from torch import Tensor

from patchword.core.geometry.boxes import box_giou
from patchword.layers.dense.focal_loss import focal_loss

__all__ = ["Losses", "focal_loss", "giou_loss"]

Losses = dict[str, Tensor]


def giou_loss(boxes: Tensor, targets: Tensor) -> Tensor:
    """Return 1 - GIoU of each pair: (..., 4), (..., 4) -> (...)."""
    return 1 - box_giou(boxes, targets)
