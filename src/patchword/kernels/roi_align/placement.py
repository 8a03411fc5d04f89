"""Where boxes lie on the maps of a pyramid, and which cells their bins read: for adaptive and for fixed samples."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Axis(NamedTuple):
    """One axis of boxes, in cells of their maps.

    first: (boxes, bins), where each bin starts. step: (boxes,), the size of a bin. cells: (boxes,), those of the map.
    """

    first: Tensor
    step: Tensor
    cells: Tensor

    def take(self, index: Tensor) -> "Axis":
        """Return some of the boxes."""
        return Axis(self.first[index], self.step[index], self.cells[index])


class Placement(NamedTuple):
    """Boxes on their maps.

    origin: (boxes,), the row of the table of all cells where the map of a box starts. known: (boxes,), has a map.
    """

    rows: Axis
    columns: Axis
    origin: Tensor
    known: Tensor

    def take(self, index: Tensor) -> "Placement":
        """Return some of the boxes."""
        return Placement(self.rows.take(index), self.columns.take(index), self.origin[index], self.known[index])


class Weighted(NamedTuple):
    """Cells along one axis and their weights: (boxes, bins, cells per bin)."""

    cells: Tensor
    weights: Tensor


def cell_table(maps: Sequence[Tensor]) -> Tensor:
    """Return the cells of all maps, one per row: (cells, channels)."""
    return torch.cat([part.permute(0, 2, 3, 1).reshape(-1, part.shape[1]) for part in maps])


@torch.no_grad()
def place_boxes(
    shapes: Sequence[torch.Size],
    boxes: Tensor,
    levels: Tensor,
    strides: Sequence[float],
    size: tuple[int, int],
    aligned: bool,
) -> Placement:
    """Place boxes (batch, boxes, 4) on the maps of their levels (batch, boxes). The result has batch * boxes boxes."""
    image = torch.arange(len(levels)).repeat_interleave(levels.shape[1], output_size=levels.numel())
    boxes, levels = boxes.reshape(-1, 4), levels.reshape(-1)
    known = (levels >= 0) & (levels < len(shapes))
    level = levels.clamp(0, len(shapes) - 1).long()
    height, width = (torch.tensor([shape[axis] for shape in shapes])[level] for axis in (2, 3))
    origin = torch.tensor([0, *[shape[0] * shape[2] * shape[3] for shape in shapes]]).cumsum(0)[level]
    scale = torch.tensor([float(stride) for stride in strides], dtype=torch.float64).to(boxes.dtype)[level]
    x1, y1, x2, y2 = ((boxes / scale[..., None]).float() - (0.5 if aligned else 0.0)).unbind(-1)
    rows, columns = _axis(y1, y2, size[0], height, aligned), _axis(x1, x2, size[1], width, aligned)
    return Placement(rows, columns, origin + image * height * width, known)


def cells_of_bins(boxes: Placement, rows: Weighted, columns: Weighted, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the rows of the table that each bin reads, and their weights: (boxes * bins, cells per bin) twice.

    A NaN in a box gives weights of NaN, also if it has no map.
    """
    starts = rows.cells * boxes.columns.cells[:, None, None] + boxes.origin[:, None, None]
    cells = starts[:, :, None, :, None] + columns.cells[:, None, :, None, :]
    row_weights = (rows.weights * boxes.known[:, None, None]).to(dtype)
    weights = row_weights[:, :, None, :, None] * columns.weights.to(dtype)[:, None, :, None, :]
    return cells.flatten(3).flatten(0, 2), weights.flatten(3).flatten(0, 2)


def scatter_to_cells(gradient: Tensor, bins: Tensor, cells: Tensor, weights: Tensor, count: int) -> Tensor:
    """Return the gradient of the table, (count, channels), from that of the bins, (bins, channels).

    bins, cells, weights: one of each per term of the weighted sums; cells[i] gets weights[i] * gradient[bins[i]].
    """
    none = bins.new_zeros(0)
    rest = bins, none, none, count, False, 0, weights
    found: Tensor = torch.ops.aten._embedding_bag_dense_backward(gradient, cells, *rest)
    return found


def _axis(start: Tensor, end: Tensor, bins: int, cells: Tensor, aligned: bool) -> Axis:
    length = end - start if aligned else (end - start).clamp(min=1)
    step = length / bins
    return Axis(start[..., None] + torch.arange(bins) * step[..., None], step, cells)
