"""RoIAlign with fixed samples on a CPU: each bin is a weighted sum of the cells around its samples.

The reference multiplies whole maps; this reads only the cells that have a weight, by torch's embedding bag over the
cells of all maps. For 1,000 boxes of 7 x 7 bins on a pyramid of 200 x 320 cells and 256 channels it takes 0.3 s and
150 MB on one core, the reference 17 s and 4.5 GB. Adaptive samples differ in number per box, so the reference computes
them, in chunks of boxes.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.tracing import trace_constant
from patchword.kernels.common.availability import is_exporting
from patchword.kernels.roi_align.reference import Rule, roi_align_reference

_DTYPES = (torch.float32, torch.float64)
_CHUNK = 256  # boxes per image for which the reference holds its products


def can_gather(maps: Sequence[Tensor]) -> bool:
    """On a CPU, outside exports, autocast and transforms of torch.func, which know the operations of the reference."""
    if any(part.device.type != "cpu" or part.dtype not in _DTYPES or part.dtype != maps[0].dtype for part in maps):
        return False
    return not (torch.is_autocast_enabled("cpu") or is_exporting() or _is_transformed())


@trace_constant  # recompiled for each transform
def _is_transformed() -> bool:
    return torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0


def roi_align_in_chunks(maps: Sequence[Tensor], boxes: Tensor, levels: Tensor, *rule: *Rule) -> Tensor:
    """Compute the reference with adaptive samples for 256 boxes at a time, which takes a fourth of the memory."""
    if boxes.shape[1] <= _CHUNK:
        return roi_align_reference(maps, boxes, levels, *rule)
    parts = zip(boxes.split(_CHUNK, dim=1), levels.split(_CHUNK, dim=1), strict=True)
    return torch.cat([roi_align_reference(maps, some, level, *rule) for some, level in parts], dim=1)


def roi_align_gather(maps: Sequence[Tensor], boxes: Tensor, levels: Tensor, *rule: *Rule) -> Tensor:
    """Compute the same as `roi_align_reference` with fixed samples."""
    batch, count = levels.shape
    channels = maps[0].shape[1]
    table = torch.cat([part.permute(0, 2, 3, 1).reshape(-1, channels) for part in maps])
    cells, weights = _cells_and_weights([part.shape for part in maps], boxes, levels, *rule)
    weights = weights.to(table.dtype)
    output = cast(Tensor, _WeightedSum.apply(table, cells, weights))  # type: ignore[no-untyped-call]  # torch's own
    return output.view(batch, count, *rule[1], channels).permute(0, 1, 4, 2, 3).contiguous()


@torch.no_grad()
def _cells_and_weights(shapes: list[torch.Size], boxes: Tensor, levels: Tensor, *rule: *Rule) -> tuple[Tensor, Tensor]:
    """Return the rows of the table that each bin reads, and their weights: (batch * boxes * bins, cells per bin)."""
    strides, size, aligned, samples = rule
    assert samples is not None, "the number of samples is fixed"
    known = (levels >= 0) & (levels < len(shapes))
    level = levels.clamp(0, len(shapes) - 1).long()
    height, width = (torch.tensor([shape[axis] for shape in shapes])[level] for axis in (2, 3))
    first = torch.tensor([0, *[shape[0] * shape[2] * shape[3] for shape in shapes]]).cumsum(0)[level]
    scale = torch.tensor([float(stride) for stride in strides], dtype=torch.float64).to(boxes.dtype)[level]
    x1, y1, x2, y2 = ((boxes / scale[..., None]).float() - (0.5 if aligned else 0.0)).unbind(-1)
    rows, row_weights = _axis(y1, y2, size[0], height, aligned, samples)
    columns, column_weights = _axis(x1, x2, size[1], width, aligned, samples)
    first = first + torch.arange(len(levels))[:, None] * height * width
    rows = rows * width[..., None, None] + first[..., None, None]
    cells = rows[:, :, :, None, :, None] + columns[:, :, None, :, None, :]
    row_weights = row_weights * known[..., None, None]
    weights = row_weights[:, :, :, None, :, None] * column_weights[:, :, None, :, None, :]
    per_bin = (2 * samples) ** 2
    return cells.reshape(-1, per_bin), weights.reshape(-1, per_bin)


def _axis(start: Tensor, end: Tensor, bins: int, cells: Tensor, aligned: bool, samples: int) -> tuple[Tensor, Tensor]:
    """Return the cells below and above the samples of each bin, and their weights: (...) -> (..., bins, 2 * samples).

    A NaN in a box gives weights of NaN.
    """
    length = end - start if aligned else (end - start).clamp(min=1)
    step = length / bins
    bin_start = start[..., None] + torch.arange(bins) * step[..., None]
    at = bin_start[..., None] + (torch.arange(samples) + 0.5) * (step / samples)[..., None, None]
    last = (cells - 1)[..., None, None].to(at.dtype)
    inside = (at >= -1) & (at <= last + 1)
    at = torch.minimum(at.clamp(min=0), last)
    below = at.floor()
    above = torch.minimum(below + 1, last)
    share = at - below
    found = torch.stack([below, above], dim=-1).nan_to_num(0).long().flatten(-2)
    weights = torch.stack([1 - share, share], dim=-1) * (inside[..., None] / samples)
    return found, weights.flatten(-2)


class _WeightedSum(torch.autograd.Function):
    """table (rows, channels), index and weights (sums, terms) -> (sums, channels). Only the table has a gradient."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(index, weights)
        ctx.rows = len(table)
        return F.embedding_bag(index, table, mode="sum", per_sample_weights=weights)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        index, weights = ctx.saved_tensors
        sums, terms = index.shape
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # a second derivative is needed
            each = (gradient[:, None] * weights[..., None]).flatten(0, 1)
            return gradient.new_zeros(ctx.rows, gradient.shape[1]).index_add(0, index.flatten(), each), None, None
        owner = torch.arange(sums, device=index.device).repeat_interleave(terms, output_size=sums * terms)
        none = owner.new_zeros(0)
        back = torch.ops.aten._embedding_bag_dense_backward
        rest = owner, none, none, ctx.rows, False, 0, weights.flatten()
        return back(gradient.contiguous(), index.flatten(), *rest), None, None
