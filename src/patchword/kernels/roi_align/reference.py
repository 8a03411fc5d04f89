"""RoIAlign as two matrix products: the reference of the kernel, and what runs where there is none.

The bilinear weight of a sample is a product of one hat function per axis, and the samples of a bin form a grid. The
mean over a bin is therefore rows . map . columns^T, where a row holds the mean hat weights of all cells along one axis.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Rule = tuple[Sequence[float], tuple[int, int], bool, int | None]  # strides, size, aligned, samples of `roi_align`


def roi_align_reference(maps: Sequence[Tensor], boxes: Tensor, levels: Tensor, *rule: *Rule) -> Tensor:
    """Compute every box on every level and add, with weights of 0 on the levels that a box does not read."""
    strides, size, aligned, samples = rule
    pooled = []
    for level, (features, stride) in enumerate(zip(maps, strides, strict=True)):
        rows, columns = _box_weights(_divided(boxes, stride), features.shape[-2:], size, aligned, samples)
        rows = rows * (levels == level)[..., None, None]
        rows, columns = rows.to(features.dtype), columns.to(features.dtype)
        pooled.append(torch.einsum("bnph,bchw,bnqw->bncpq", rows, features, columns))
    return torch.stack(pooled).sum(dim=0)


def roi_align_masks_reference(
    masks: Tensor, boxes: Tensor, index: Tensor, size: tuple[int, int], aligned: bool, samples: int | None
) -> Tensor:
    """Gather the mask of each box, then multiply from both sides."""
    rows, columns = _box_weights(boxes, masks.shape[-2:], size, aligned, samples)
    own = masks.gather(1, index[..., None, None].expand(-1, -1, *masks.shape[-2:])).to(rows.dtype)
    return rows @ own @ columns.transpose(-1, -2)


def _divided(values: Tensor, by: float) -> Tensor:
    """Divide with correct rounding; on a GPU, torch multiplies by the reciprocal of a Python number.

    One unit in the last place decides whether a sample at the border of a map counts.
    """
    return values / values.new_full((), by)


@torch.no_grad()
def _box_weights(
    boxes: Tensor, cells: torch.Size, size: tuple[int, int], aligned: bool, samples: int | None
) -> tuple[Tensor, Tensor]:
    """Return the weights along y and x: (..., 4) in cells of the map -> (..., bins, cells) twice, in float32."""
    x1, y1, x2, y2 = (boxes.float() - (0.5 if aligned else 0.0)).unbind(-1)
    rows = axis_weights(y1, y2, size[0], cells[0], aligned, samples)
    return rows, axis_weights(x1, x2, size[1], cells[1], aligned, samples)


def axis_weights(start: Tensor, end: Tensor, bins: int, cells: int, aligned: bool, samples: int | None) -> Tensor:
    """Return the mean bilinear weight of each cell in each bin along one axis: (...) -> (..., bins, cells).

    Samples below -1 or above `cells` count 0; others outside the map are moved to its border.
    samples: samples per bin, or None for ceil(bin size).
    """
    length = end - start if aligned else (end - start).clamp(min=1)
    step = _divided(length, bins)
    first = start[..., None] + torch.arange(bins, device=start.device) * step[..., None]
    if samples is None:
        edges = torch.arange(-1, cells + 1, device=start.device)
        return adaptive_weights(first[..., None], step[..., None, None], edges, cells)
    return _fixed_weights(first, step, cells, samples)


def _fixed_weights(first: Tensor, step: Tensor, cells: int, samples: int) -> Tensor:
    """Sum the hat functions of all samples. first: (..., bins), step: (...)."""
    offsets = torch.arange(samples, device=first.device) + 0.5
    at = first[..., None] + offsets * _divided(step, samples)[..., None, None]
    inside = (at >= -1) & (at <= cells)
    distance = at.clamp(0, cells - 1)[..., None] - torch.arange(cells, device=first.device)
    return ((1 - distance.abs()).clamp(min=0) * inside[..., None]).sum(dim=-2) / samples


def adaptive_weights(first: Tensor, step: Tensor, edges: Tensor, cells: int | Tensor) -> Tensor:
    """Sum the hat functions of ceil(step) samples per bin, without a list of samples, whose number differs per box.

    Samples lie at first + (s + 0.5) * gap. Between two neighbouring cells, both hat functions are linear, so that the
    number of samples there and their mean position give the sums.
    first: (..., bins, 1), start of each bin. step: (..., 1, 1), its size. cells: along the axis of the map.
    edges: (..., cells + 2), the cells whose weights are computed, one before them and one after them.
    """
    count = step.ceil().clamp(min=0)
    gap = (step / count.clamp(min=1)).clamp(min=torch.finfo(step.dtype).tiny)
    position = (edges - first) / gap - 0.5  # index of the sample that would lie on the edge
    upto = torch.where(edges < 0, position.ceil(), position.floor() + 1)  # a sample at -1 counts
    upto = upto.clamp(min=torch.zeros_like(count), max=count)
    low, high = upto[..., :-1], upto[..., 1:]
    lower_edge = edges[..., :-1]
    number = high - low
    share = (first + (low + high) / 2 * gap - lower_edge).clamp(0, 1)  # of the upper cell
    share = torch.where(lower_edge < 0, 1.0, torch.where(lower_edge == cells - 1, 0.0, share))
    upper, lower = number * share, number * (1 - share)
    return (upper[..., :-1] + lower[..., 1:]) / count.clamp(min=1)
