"""Sine positions of the cells of a map whose image is padded."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.layers.embedding.sinusoids import sinusoids_at

_EPSILON = 1e-6


class SinePositions(nn.Module):
    """Sines and cosines of row and column (Carion et al., 2020): the first half of the channels is the row's.

    Rows and columns are counted from 1 without padding and divided by their number, so that they end at 2 pi.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 4:
            raise UserError(
                "the width of a DETR", expected="a multiple of 4: sine and cosine of row and column", got=width
            )
        self.width = width

    def extra_repr(self) -> str:
        return f"width={self.width}"

    def forward(self, valid: Tensor) -> Tensor:
        """(batch, rows, columns), False for padding -> (batch, rows * columns, width)"""
        counted = [valid.cumsum(axis, dtype=torch.float32) for axis in (1, 2)]
        last = counted[0][:, -1:], counted[1][:, :, -1:]
        angles = [count / (most + _EPSILON) * (2 * math.pi) for count, most in zip(counted, last, strict=True)]
        halves = [sinusoids_at(angle, self.width // 2, "interleaved") for angle in angles]
        return torch.cat(halves, dim=-1).flatten(1, 2)


def pixels_of_cells(image: tuple[int, int], cells: tuple[int, int], device: torch.device) -> Tensor:
    """Return the pixel, row and column, that each cell of a map reads by `nearest` interpolation: (2, rows, columns).

    A cell is padding if this pixel is: the map of a mask of pixels is the same.
    """
    rows, columns = (
        F.interpolate(torch.arange(side, dtype=torch.float32, device=device)[None, None], size=count)[0, 0]
        for side, count in zip(image, cells, strict=True)
    )
    return torch.stack([rows[:, None].expand(cells), columns[None].expand(cells)])


def valid_cells(pixels: Tensor, sizes: Tensor) -> Tensor:
    """Return False for padding: (batch, 2, rows, columns) of `pixels_of_cells`, (batch, 2) -> (batch, rows, columns)"""
    return (pixels < sizes[:, :, None, None]).all(dim=1)
