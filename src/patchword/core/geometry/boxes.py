"""Box arithmetic: areas, intersection over union, clipping. A box is (x1, y1, x2, y2) in pixels, of width x2 - x1."""

import torch
from torch import Tensor

EPSILON = 1e-6  # smallest union and smallest enclosing area that IoU and GIoU divide by


def box_areas(boxes: Tensor) -> Tensor:
    """Return the area of each box: (..., 4) -> (...). A box with swapped corners has the area 0."""
    size = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0)
    return size[..., 0] * size[..., 1]


def box_centers(boxes: Tensor) -> Tensor:
    """Return the center (x, y) of each box: (..., 4) -> (..., 2)."""
    return (boxes[..., :2] + boxes[..., 2:]) / 2


def box_iou(first: Tensor, second: Tensor) -> Tensor:
    """Return the intersection over union of boxes one by one: (..., 4), (..., 4) -> (...); leading sizes broadcast."""
    intersection, union = _intersection_and_union(first, second)
    return intersection / union.clamp(min=EPSILON)


def box_giou(first: Tensor, second: Tensor) -> Tensor:
    """Return the generalized IoU of boxes one by one: (..., 4), (..., 4) -> (...); leading sizes broadcast.

    GIoU = IoU - (enclosing area - union) / enclosing area, in [-1, 1] (Rezatofighi et al., 2019).
    """
    intersection, union = _intersection_and_union(first, second)
    union = union.clamp(min=EPSILON)
    low = torch.minimum(first[..., :2], second[..., :2])
    high = torch.maximum(first[..., 2:], second[..., 2:])
    enclosing = box_areas(torch.cat([low, high], dim=-1)).clamp(min=EPSILON)
    return intersection / union - (enclosing - union) / enclosing


def pairwise_iou(first: Tensor, second: Tensor) -> Tensor:
    """Return the IoU of every pair: (..., m, 4), (..., n, 4) -> (..., m, n)."""
    return box_iou(first[..., :, None, :], second[..., None, :, :])


def pairwise_giou(first: Tensor, second: Tensor) -> Tensor:
    """Return the generalized IoU of every pair: (..., m, 4), (..., n, 4) -> (..., m, n)."""
    return box_giou(first[..., :, None, :], second[..., None, :, :])


def clip_boxes(boxes: Tensor, sizes: Tensor) -> Tensor:
    """Move corners that lie outside the image to its border.

    boxes: (batch, boxes, 4). sizes: (batch, 2), height and width of each image without its padding.
    """
    limits = sizes.to(boxes.dtype).flip(-1).repeat(1, 2)[:, None]
    return torch.minimum(boxes.clamp(min=0), limits)


def _intersection_and_union(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    low = torch.maximum(first[..., :2], second[..., :2])
    high = torch.minimum(first[..., 2:], second[..., 2:])
    size = (high - low).clamp(min=0)
    intersection = size[..., 0] * size[..., 1]
    return intersection, box_areas(first) + box_areas(second) - intersection
