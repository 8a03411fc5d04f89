"""Which patterns the kernel knows that reads and writes tokens where they lie, and what it must be told of them.

Only parts whose mathematics it knows: a part of one's own, or one derived from these, takes the usual way.
"""

import torch
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.kernels.window_attention.operation import Share
from patchword.layers.attention.partition import Full, Partition
from patchword.layers.attention.position import LocalEnhancement, Position, RelativeTable, resize_offsets
from patchword.layers.attention.projection import Projected
from patchword.layers.attention.windows import Interlaced, Windows
from patchword.layers.watched import has_hooks

_SHORT, _SHORTEST = 128, 64  # tokens that all meet each other
_NARROW = 64  # channels of a head


def is_known(partition: Partition, position: Position) -> bool:
    if type(partition) is Full:
        return type(position) is Position
    if type(position) is LocalEnhancement:
        convolution = position.convolution
        whole = type(convolution) is nn.Conv2d and convolution.bias is not None and not has_hooks(convolution)
        return type(partition) in (Windows, Interlaced) and whole
    return type(partition) in (Windows, Interlaced) and type(position) in (Position, RelativeTable)


def on_one_map(projected: Projected, partitions: list[Partition], grid: Grid | None, head: int) -> bool:
    """Queries and keys are the tokens of one map, and nobody is kept from reading. head: its channels"""
    query, key, value = projected[:3]
    alike = query.shape == key.shape == value.shape and query.dtype == key.dtype == value.dtype
    if not alike or projected.mask is not None or projected.rows is not None:
        return False
    if any(type(partition) is Full for partition in partitions):
        return len(partitions) == 1 and _is_quicker(query, head)
    return grid is not None and grid == projected.key_grid


def _is_quicker(query: Tensor, head: int) -> bool:
    """Where all tokens meet, torch's own kernels are quicker but for a few tokens, and for some more if a gradient is
    wanted. A kernel is built for each number of tokens, so not without a compiler, where that number may change."""
    most = _SHORT if query.requires_grad and head <= _NARROW else _SHORTEST
    short = query.shape[1] <= most and query.dtype in (torch.float16, torch.bfloat16)
    return short and torch.compiler.is_compiling()


def share_of(partition: Partition, position: Position, grid: Grid | None, query: Tensor) -> Share:
    """A pattern in the kernel's words."""
    table = taps = constant = torch.empty(0, device=query.device)
    if isinstance(partition, Full):
        return Share(Windows(None, None).cut(Grid(1, query.shape[1])), table, taps, constant)
    assert isinstance(partition, Windows | Interlaced), "only rectangles are run in place"
    if isinstance(position, RelativeTable):
        table = resize_offsets(position.table, position.window, partition.inner(grid))
    elif isinstance(position, LocalEnhancement):
        taps, constant = _taps(position.convolution)
    return Share(partition.cut(grid), table, taps, constant)


def _taps(convolution: nn.Conv2d) -> tuple[Tensor, Tensor]:
    assert convolution.bias is not None, "the convolution of LePE has a bias"
    return convolution.weight, convolution.bias
