"""Partitions of a map into rectangles: windows, stripes, and the interlaced rows and columns of a pale.

A map whose size is not a multiple of the rectangle is padded at the bottom and on the right. Tokens never attend to the
padding, and it is removed from the output. (In Swin's detection code and in timm, tokens attend to the padding.)
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.kernels.window_attention import Rectangles, Side
from patchword.layers.attention.kernel_support import KernelSupport


@dataclass(frozen=True)
class Windows(KernelSupport, kernels=["window"]):
    """Contiguous rectangles of height x width; None is the whole side of the map, which makes a stripe.

    shift: moves the rectangles down and to the right, so that tokens attend across the borders of unshifted windows
        (Liu et al., 2021, 3.2). The map is rolled; a mask separates tokens that are not neighbours on the map.
    A side that is not longer than the window is one window, and is not shifted unless shift_single is True.
    """

    height: int | None
    width: int | None
    shift: int = 0
    shift_single: bool = False

    def inner(self, grid: Grid | None) -> Grid:
        """Returns the grid of the members of one group."""
        return _tile(self.height, self.width, grid)

    def split(self, tokens: Tensor, grid: Grid | None) -> Tensor:
        """(batch, tokens, width) -> (batch * windows, size, width)"""
        tile, down, right = self.inner(grid), *self._shifts(grid)
        feature_map = _padded(tokens, _on_map(grid), tile)
        if down or right:
            feature_map = feature_map.roll((-down, -right), (1, 2))
        rows, columns = feature_map.shape[1] // tile.height, feature_map.shape[2] // tile.width
        cut: Tensor = feature_map.unflatten(2, (columns, tile.width)).unflatten(1, (rows, tile.height))
        return cut.transpose(2, 3).reshape(-1, tile.tokens, tokens.shape[-1])

    def merge(self, groups: Tensor, grid: Grid | None) -> Tensor:
        """Inverts `split`."""
        tile, down, right = self.inner(grid), *self._shifts(grid)
        rows, columns = _counts(_on_map(grid), tile)
        cut = groups.reshape(-1, rows, columns, tile.height, tile.width, groups.shape[-1])
        feature_map = cut.transpose(2, 3).reshape(-1, rows * tile.height, columns * tile.width, groups.shape[-1])
        if down or right:
            feature_map = feature_map.roll((down, right), (1, 2))
        return _cropped(feature_map, _on_map(grid))

    def mask(self, grid: Grid | None, device: torch.device) -> Tensor | None:
        """Returns (windows, 1, size, size), True for tokens of one window that are neighbours on the map."""
        grid, (down, right) = _on_map(grid), self._shifts(grid)
        if not (down or right or _needs_padding(grid, self.inner(grid))):
            return None
        wrapped_down = (torch.arange(grid.height, device=device) < down).long()
        wrapped_right = (torch.arange(grid.width, device=device) < right).long()
        regions = 1 + 2 * wrapped_down[:, None] + wrapped_right[None]  # 0 is the padding
        return _have_equal_labels(self.split(regions.view(1, -1, 1), grid))

    def cut(self, grid: Grid | None) -> Rectangles:
        """Returns the rectangles as integers, for the kernel."""
        grid, tile, (down, right) = _on_map(grid), self.inner(grid), self._shifts(grid)
        rows, columns = _counts(grid, tile)
        return Rectangles(
            Side(grid.height, tile.height, rows, step=1, jump=tile.height, shift=down),
            Side(grid.width, tile.width, columns, step=1, jump=tile.width, shift=right),
        )

    def _shifts(self, grid: Grid | None) -> tuple[int, int]:
        grid, tile = _on_map(grid), self.inner(grid)
        if self.shift_single:
            return self.shift, self.shift
        return self.shift if grid.height > tile.height else 0, self.shift if grid.width > tile.width else 0


@dataclass(frozen=True)
class Interlaced(KernelSupport, kernels=["window"]):
    """Groups of `height` rows and `width` columns at equal distances over the map; None is all rows or columns.

    With height 7 on a map of 56 rows, rows 0, 8, 16, ... are one group and rows 1, 9, 17, ... the next: the rows of a
    pale (Wu et al., 2021).
    """

    height: int | None
    width: int | None

    def inner(self, grid: Grid | None) -> Grid:
        """Returns the grid of the members of one group."""
        return _tile(self.height, self.width, grid)

    def split(self, tokens: Tensor, grid: Grid | None) -> Tensor:
        """(batch, tokens, width) -> (batch * groups, size, width)"""
        tile = self.inner(grid)
        feature_map = _padded(tokens, _on_map(grid), tile)
        cut: Tensor = feature_map.unflatten(2, (tile.width, -1)).unflatten(1, (tile.height, -1))
        return cut.permute(0, 2, 4, 1, 3, 5).reshape(-1, tile.tokens, tokens.shape[-1])

    def merge(self, groups: Tensor, grid: Grid | None) -> Tensor:
        """Inverts `split`."""
        tile = self.inner(grid)
        rows, columns = _counts(_on_map(grid), tile)
        cut = groups.reshape(-1, rows, columns, tile.height, tile.width, groups.shape[-1]).permute(0, 3, 1, 4, 2, 5)
        feature_map = cut.reshape(-1, rows * tile.height, columns * tile.width, groups.shape[-1])
        return _cropped(feature_map, _on_map(grid))

    def mask(self, grid: Grid | None, device: torch.device) -> Tensor | None:
        """Returns (groups, 1, size, size), False for padding; None if there is none."""
        grid = _on_map(grid)
        if not _needs_padding(grid, self.inner(grid)):
            return None
        return _have_equal_labels(self.split(torch.ones(1, grid.tokens, 1, dtype=torch.long, device=device), grid))

    def cut(self, grid: Grid | None) -> Rectangles:
        """Returns the rectangles as integers, for the kernel."""
        grid, tile = _on_map(grid), self.inner(grid)
        rows, columns = _counts(grid, tile)
        return Rectangles(
            Side(grid.height, tile.height, rows, step=rows, jump=1, shift=0),
            Side(grid.width, tile.width, columns, step=columns, jump=1, shift=0),
        )


def _on_map(grid: Grid | None) -> Grid:
    if grid is None or grid.prefix:
        raise UserError(
            "windows, stripes and pales need a map",
            expected="tokens of an image without leading tokens",
            got="tokens without a grid" if grid is None else f"{grid.prefix} leading tokens",
            hint="pool by the mean instead of a [CLS] token, or use the partition Full()",
        )
    return grid


def _tile(height: int | None, width: int | None, grid: Grid | None) -> Grid:
    grid = _on_map(grid)
    return Grid(min(height or grid.height, grid.height), min(width or grid.width, grid.width))


def _counts(grid: Grid, tile: Grid) -> tuple[int, int]:
    """Returns the number of rectangles along each side."""
    return -(-grid.height // tile.height), -(-grid.width // tile.width)


def _needs_padding(grid: Grid, tile: Grid) -> bool:
    return bool(grid.height % tile.height or grid.width % tile.width)


def _padded(tokens: Tensor, grid: Grid, tile: Grid) -> Tensor:
    """(batch, tokens, width) -> (batch, rows, columns, width), padded with zeros to a multiple of the rectangle"""
    feature_map: Tensor = tokens.unflatten(1, (grid.height, grid.width))
    if not _needs_padding(grid, tile):
        return feature_map
    return F.pad(feature_map, (0, 0, 0, -grid.width % tile.width, 0, -grid.height % tile.height))


def _cropped(feature_map: Tensor, grid: Grid) -> Tensor:
    """(batch, rows, columns, width) -> (batch, tokens, width)"""
    return feature_map[:, : grid.height, : grid.width].flatten(1, 2)


def _have_equal_labels(labels: Tensor) -> Tensor:
    """(groups, size, 1) -> (groups, 1, size, size), True for members with equal labels"""
    return (labels == labels.transpose(1, 2))[:, None]
