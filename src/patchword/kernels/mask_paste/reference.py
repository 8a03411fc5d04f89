"""Mask paste as two matrix products: the reference of the kernel, and what runs where there is none.

Bilinear interpolation is a product of one hat function per axis, so that the pasted mask is rows . mask . columns^T.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def paste_masks_reference(masks: Tensor, boxes: Tensor, size: tuple[int, int], rounded: bool) -> Tensor:
    """Interpolate along y, then along x."""
    if rounded:
        boxes = widened_boxes(boxes, masks.shape[-2:])
        masks = F.pad(masks, (1, 1, 1, 1))
    x1, y1, x2, y2 = boxes.to(torch.float32).unbind(-1)
    weights = _rounded_weights if rounded else _center_weights
    rows = weights(y1, y2, masks.shape[-2], size[0]).to(masks.dtype)
    columns = weights(x1, x2, masks.shape[-1], size[1]).to(masks.dtype)
    return rows @ masks @ columns.transpose(-1, -2)


def paste_binary_masks_reference(
    masks: Tensor, boxes: Tensor, size: tuple[int, int], threshold: float, rounded: bool
) -> Tensor:
    """Paste probabilities, then compare: at least the threshold, or above it for rounded boxes."""
    pasted = paste_masks_reference(masks, boxes, size, rounded)
    return pasted > threshold if rounded else pasted >= threshold


def _center_weights(start: Tensor, end: Tensor, cells: int, pixels: int) -> Tensor:
    """Weight of each mask cell at each pixel center: (...) -> (..., pixels, cells). Cells outside the mask are 0."""
    centers = torch.arange(pixels, device=start.device) + 0.5
    length = end - start
    safe = torch.where(length > 0, length, 1.0)
    at = (centers - start[..., None]) / safe[..., None] * cells - 0.5
    return _hats(at, cells) * (length > 0)[..., None, None]


def _rounded_weights(start: Tensor, end: Tensor, cells: int, pixels: int) -> Tensor:
    """The same for a box of whole pixels from `start` to `end`, both included; outside it, weights are 0."""
    place = torch.arange(pixels, device=start.device) - start[..., None]
    length = (end - start + 1).clamp(min=1)[..., None]
    at = ((place + 0.5) * (cells / length) - 0.5).clamp(0, cells - 1)
    inside = (place >= 0) & (place < length)
    return _hats(at, cells) * inside[..., None]


def _hats(at: Tensor, cells: int) -> Tensor:
    """Bilinear weight of each cell at each position: (...) -> (..., cells)."""
    return (1 - (at[..., None] - torch.arange(cells, device=at.device)).abs()).clamp(min=0)


def widened_boxes(boxes: Tensor, cells: torch.Size) -> Tensor:
    """Widen boxes around their center by one mask cell on each side, then truncate the corners to integers."""
    center, half = (boxes[..., :2] + boxes[..., 2:]) / 2, (boxes[..., 2:] - boxes[..., :2]) / 2
    scale = half.new_tensor([(cells[1] + 2) / cells[1], (cells[0] + 2) / cells[0]])
    return torch.cat([center - half * scale, center + half * scale], dim=-1).trunc()
