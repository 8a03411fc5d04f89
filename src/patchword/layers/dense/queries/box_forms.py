"""The forms of a box: corners in pixels, corners or center and size as a share of the image."""

import torch
from torch import Tensor


def to_centers(boxes: Tensor) -> Tensor:
    """(x1, y1, x2, y2) -> (center x, center y, width, height): (..., 4) -> (..., 4)"""
    low, high = boxes[..., :2], boxes[..., 2:]
    return torch.cat([(low + high) / 2, high - low], dim=-1)


def to_corners(boxes: Tensor) -> Tensor:
    """(center x, center y, width, height) -> (x1, y1, x2, y2): (..., 4) -> (..., 4)"""
    center, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([center - half, center + half], dim=-1)


def to_relative(boxes: Tensor, sizes: Tensor) -> Tensor:
    """Divide boxes in pixels by the sizes of their images.

    boxes: (..., batch, boxes, 4), corners or centers. sizes: (batch, 2), height and width of each image.
    """
    return boxes / _scale(boxes, sizes)


def to_pixels(boxes: Tensor, sizes: Tensor) -> Tensor:
    """Multiply relative boxes by the sizes of their images: the inverse of `to_relative`."""
    return boxes * _scale(boxes, sizes)


def _scale(boxes: Tensor, sizes: Tensor) -> Tensor:
    """Return width, height, width, height of each image: (batch, 1, 4)"""
    return sizes.to(boxes.dtype).flip(-1).repeat(1, 2)[:, None]
