"""RoIAlign with adaptive samples on a CPU: boxes with the same number of samples per bin are gathered together.

A bin with s samples along an axis reads at most s + 1 cells along it, because samples lie at most one cell apart. Boxes
are grouped by these numbers, and each bin of a group is a weighted sum of equally many cells. The groups depend on the
values of the boxes, so that this is an operation of torch, which compiled models call and do not trace.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.common.register_op import register_op
from patchword.kernels.roi_align.placement import (
    Axis,
    Placement,
    Weighted,
    cell_table,
    cells_of_bins,
    place_boxes,
    scatter_to_cells,
)
from patchword.kernels.roi_align.reference import Rule, adaptive_weights

_MOST_CELLS = 2**21  # per chunk of boxes, counted once per bin that reads them: indices and weights take 25 MB


class Chunk(NamedTuple):
    """Weighted sums of cells, one per bin.

    boxes: (boxes,). cells, weights: those of all bins, one bin after the other. counts: (boxes * bins,), cells per bin.
    """

    boxes: Tensor
    cells: Tensor
    weights: Tensor
    counts: Tensor


def roi_align_adaptive(maps: Sequence[Tensor], boxes: Tensor, levels: Tensor, *rule: *Rule) -> Tensor:
    """Compute the same as `roi_align_reference` with adaptive samples."""
    strides, size, aligned, samples = rule
    assert samples is None, "the number of samples is adaptive"
    return _pool(list(maps), boxes, levels, [float(stride) for stride in strides], list(size), aligned)


def chunks(boxes: Placement, dtype: torch.dtype) -> Iterator[Chunk]:
    """Yield all boxes, those with equally many samples together, in chunks whose cells fit into memory."""
    bins = boxes.rows.first.shape[1] * boxes.columns.first.shape[1]
    samples, group = torch.stack([_samples(boxes.rows), _samples(boxes.columns)], dim=1).unique(
        dim=0, return_inverse=True
    )
    waiting: list[Chunk] = []
    room = _MOST_CELLS
    for number, (rows, columns) in enumerate(samples.tolist()):
        per_box = bins * (rows + 1) * (columns + 1)
        for some in (group == number).nonzero().flatten().split(max(1, _MOST_CELLS // per_box)):
            if waiting and len(some) * per_box > room:
                yield _joined(waiting)
                waiting, room = [], _MOST_CELLS
            waiting.append(_chunk(boxes, some, rows, columns, dtype))
            room -= len(some) * per_box
    if waiting:
        yield _joined(waiting)


def _samples(axis: Axis) -> Tensor:
    """Return the samples per bin, as integers, at most one per cell of the map: further ones read no further cells."""
    return torch.minimum(axis.step.ceil().nan_to_num(0).clamp(min=0), axis.cells).long()


def _chunk(boxes: Placement, index: Tensor, rows: int, columns: int, dtype: torch.dtype) -> Chunk:
    own = boxes.take(index)
    cells, weights = cells_of_bins(own, _weighted(own.rows, rows), _weighted(own.columns, columns), dtype)
    return Chunk(index, cells.flatten(), weights.flatten(), torch.full((len(cells),), cells.shape[1]))


def _weighted(axis: Axis, samples: int) -> Weighted:
    """Return `samples` + 1 cells from the first that a bin reads, and their weights, 0 for cells that are not there."""
    first, step, cells = axis.first[..., None], axis.step[:, None, None], axis.cells[:, None, None]
    gap = step / step.ceil().clamp(min=1)
    lowest = torch.minimum((first + gap / 2).nan_to_num(0).clamp(min=0).floor(), cells - 1).long()
    edges = lowest + torch.arange(-1, samples + 2)
    found = edges[..., 1:-1]
    weights = adaptive_weights(first, step, edges, cells) * (found < cells)
    return Weighted(torch.minimum(found, cells - 1), weights)


def _joined(parts: list[Chunk]) -> Chunk:
    return parts[0] if len(parts) == 1 else Chunk(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _forward(
    maps: list[Tensor], boxes: Tensor, levels: Tensor, strides: list[float], size: list[int], aligned: bool
) -> Tensor:
    table, (rows, columns) = cell_table(maps), size
    placement = place_boxes([part.shape for part in maps], boxes, levels, strides, (rows, columns), aligned)
    output = table.new_empty(levels.numel(), rows * columns, table.shape[1])
    for chunk in chunks(placement, table.dtype):
        starts = chunk.counts.cumsum(0) - chunk.counts
        sums = F.embedding_bag(chunk.cells, table, starts, mode="sum", per_sample_weights=chunk.weights)
        output[chunk.boxes] = sums.view(len(chunk.boxes), *output.shape[1:])
    return output.transpose(1, 2).reshape(*levels.shape, table.shape[1], rows, columns)


def _backward(
    gradient: Tensor, maps: list[Tensor], boxes: Tensor, levels: Tensor, strides: list[float], size: list[int],
    aligned: bool,
) -> list[Tensor]:  # fmt: skip
    """Return the gradient of each map. The cells are found again, so that training does not hold them."""
    bins, channels = size[0] * size[1], gradient.shape[2]
    placement = place_boxes([part.shape for part in maps], boxes, levels, strides, (size[0], size[1]), aligned)
    counts = [len(part) * part.shape[2] * part.shape[3] for part in maps]
    total: Tensor | None = None
    gradient = gradient.permute(0, 1, 3, 4, 2).reshape(-1, channels)
    for chunk in chunks(placement, gradient.dtype):
        own_bins = (chunk.boxes[:, None] * bins + torch.arange(bins)).flatten()
        owner = own_bins.repeat_interleave(chunk.counts, output_size=len(chunk.cells))
        found = scatter_to_cells(gradient, owner, chunk.cells, chunk.weights, sum(counts))
        total = found if total is None else total.add_(found)
    if total is None:  # no boxes
        total = gradient.new_zeros(sum(counts), channels)
    parts = zip(total.split(counts), maps, strict=True)
    return [
        found.view(len(part), *part.shape[2:], channels)
        .permute(0, 3, 1, 2)
        .clone(memory_format=torch.contiguous_format)
        for found, part in parts
    ]


def _forward_fake(maps: list[Tensor], boxes: Tensor, levels: Tensor, *rule: Any) -> Tensor:
    return maps[0].new_empty(*levels.shape, maps[0].shape[1], *rule[1])


def _backward_fake(gradient: Tensor, maps: list[Tensor], *rule: Any) -> list[Tensor]:
    return [gradient.new_empty(part.shape) for part in maps]


_RULE = "Tensor boxes, Tensor levels, float[] strides, SymInt[] size, bool aligned"
_pool = register_op("roi_align_adaptive", f"Tensor[] maps, {_RULE}", _forward, _forward_fake)
_scatter = register_op(
    "roi_align_adaptive_back", f"Tensor gradient, Tensor[] maps, {_RULE}", _backward, _backward_fake, "Tensor[]"
)


def _save_rule(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *_, maps, boxes, levels, strides, size, aligned = inputs
    ctx.rule = strides, size, aligned
    ctx.save_for_backward(boxes, levels, *maps)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    boxes, levels, *maps = ctx.saved_tensors
    shapes = [part.detach() for part in maps]
    return _scatter(gradient, shapes, boxes, levels, *ctx.rule), None, None, None, None, None


def _differentiate_twice(ctx: Any, gradients: list[Tensor]) -> tuple[Any, ...]:
    """The gradient of the maps is linear in the gradient of the output, and does not depend on the maps."""
    boxes, levels, *maps = ctx.saved_tensors
    return _pool(list(gradients), boxes, levels, *ctx.rule), [None] * len(maps), None, None, None, None, None


torch.library.register_autograd("patchword::roi_align_adaptive", _differentiate, setup_context=_save_rule)
torch.library.register_autograd("patchword::roi_align_adaptive_back", _differentiate_twice, setup_context=_save_rule)
