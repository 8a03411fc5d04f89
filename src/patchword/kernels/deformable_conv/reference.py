"""The columns of a deformable convolution in plain PyTorch: the reference of the kernel, and what runs without one."""

import torch
from torch import Tensor

TAPS = 9  # of a 3x3 kernel


def columns_reference(features: Tensor, offsets: Tensor) -> Tensor:
    """Return what each tap reads at each cell: (batch, cells, taps, channels). See `deformable_conv`.

    A tap reads the four cells around its place with bilinear weights; cells outside the map are zero.
    """
    batch, channels, height, width = features.shape
    y, x = tap_places(offsets)
    table = features.permute(0, 2, 3, 1).reshape(-1, channels)
    image = torch.arange(batch, device=features.device)[:, None, None] * (height * width)
    low_y, low_x = (place.detach().nan_to_num(0).floor() for place in (y, x))
    found = []
    for row, row_weight in ((low_y, low_y + 1 - y), (low_y + 1, y - low_y)):
        for column, column_weight in ((low_x, low_x + 1 - x), (low_x + 1, x - low_x)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            cell = torch.where(inside, row * width + column, 0.0).long() + image
            weight = (row_weight * column_weight * inside).to(features.dtype)
            found.append(table[cell] * weight[..., None])
    return found[0] + found[1] + found[2] + found[3]


def tap_places(offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Return row and column that each tap reads: (batch, 2 * taps, height, width) -> (batch, cells, taps) twice.

    Places are limited to two cells outside the map, where a tap reads zeros anyway, so that they are valid integers.
    """
    _, _, height, width = offsets.shape
    tap = torch.arange(TAPS, device=offsets.device)
    cell = torch.arange(height * width, device=offsets.device)[:, None]
    by_tap = offsets.flatten(2).transpose(1, 2).unflatten(2, (TAPS, 2))
    y = by_tap[..., 0] + (cell // width + tap // 3 - 1)
    x = by_tap[..., 1] + (cell % width + tap % 3 - 1)
    return y.clamp(-2, height + 1), x.clamp(-2, width + 1)
