"""The patterns that the window attention kernel supports, and their description for it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from patchword.core.grid import Grid
from patchword.kernels.window_attention import HeadGroup
from patchword.layers.attention.partition import Full, Partition
from patchword.layers.attention.pattern import Pattern
from patchword.layers.attention.position import LocalEnhancement, Position, RelativeTable, resize_offsets
from patchword.layers.attention.projection import Projected
from patchword.layers.attention.windows import Interlaced, Windows


def is_dense(patterns: Sequence[Pattern]) -> bool:
    """True if all heads attend to all tokens, without position."""
    return len(patterns) == 1 and patterns[0].supports("dense")


def fits_window_kernel(projected: Projected, patterns: Sequence[Pattern], grid: Grid | None) -> bool:
    """True if the kernel knows all patterns, queries and keys are the same tokens, and there is no mask.

    Masks are checked before sizes: an exported translator would else refuse a target that is as long as its source.
    """
    query, key, value = projected[:3]
    if projected.mask is not None or projected.packed is not None:
        return False
    if not (query.shape == key.shape == value.shape and query.dtype == key.dtype == value.dtype):
        return False
    if is_dense(patterns):
        return True
    on_one_map = grid is not None and grid == projected.key_grid
    return on_one_map and all(pattern.supports("window") for pattern in patterns)


def describe(partition: Partition, position: Position, grid: Grid | None, query: Tensor) -> HeadGroup:
    """Returns a pattern as the arguments of the kernel. Short sequences are a map with one row."""
    table = taps = constant = torch.empty(0, device=query.device)
    if isinstance(partition, Full):
        return HeadGroup(Windows(None, None).cut(Grid(1, query.shape[1])), table, taps, constant)
    assert isinstance(partition, Windows | Interlaced), "the kernel supports rectangles only"
    if isinstance(position, RelativeTable):
        table = resize_offsets(position.table, position.window, partition.inner(grid))
    elif isinstance(position, LocalEnhancement):
        taps, bias = position.convolution.weight, position.convolution.bias
        assert bias is not None, "the convolution of LePE has a bias"
        constant = bias
    return HeadGroup(partition.cut(grid), table, taps, constant)
