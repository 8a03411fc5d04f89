"""Which patterns the kernel knows that reads and writes tokens where they lie, and what it must be told of them.

Only parts whose mathematics it knows: a part of one's own, or one derived from these, takes the usual way.
"""

import torch
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.kernels.windows import Share
from patchword.layers.attention.partition import Partition
from patchword.layers.attention.position import LocalEnhancement, Position, RelativeTable, resize_offsets
from patchword.layers.attention.projection import Projected
from patchword.layers.attention.rectangles import Interlaced, Windows


def is_known(partition: Partition, position: Position) -> bool:
    return type(partition) in (Windows, Interlaced) and type(position) in (Position, RelativeTable, LocalEnhancement)


def on_one_map(projected: Projected, grid: Grid | None) -> bool:
    """Queries and keys are the tokens of one map, and nobody is kept from reading."""
    query, key, value = projected[:3]
    alike = query.shape == key.shape == value.shape and query.dtype == key.dtype == value.dtype
    return grid is not None and grid == projected.key_grid and alike and projected.mask is None


def share_of(partition: Partition, position: Position, grid: Grid | None, device: torch.device) -> Share:
    """A pattern in the kernel's words."""
    assert isinstance(partition, Windows | Interlaced), "only rectangles are run in place"
    table = taps = torch.empty(0, device=device)
    if isinstance(position, RelativeTable):
        table = resize_offsets(position.table, position.window, partition.inner(grid))
    elif isinstance(position, LocalEnhancement):
        taps = _taps(position.convolution)
    return Share(partition.cut(grid), table, taps)


def _taps(convolution: nn.Conv2d) -> Tensor:
    assert convolution.bias is not None, "the convolution of LePE has a bias"
    return torch.cat([convolution.weight.flatten(1), convolution.bias[:, None]], dim=1)
