"""Leading tokens and absolute position encodings, applied to image tokens before the first block."""

import math
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid


class NoPrefix(nn.Module):
    """Adds no leading tokens."""

    def forward(self, tokens: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        return tokens, grid


class Prefix(nn.Module):
    """Learned tokens in front of the patches: [CLS], and DeiT's distillation token."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.zeros(1, count, width))

    def forward(self, tokens: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        leading = self.tokens.to(tokens.dtype).expand(tokens.shape[0], -1, -1)
        return torch.cat([leading, tokens], dim=1), replace(grid, prefix=self.tokens.shape[1])


class NoPositions(nn.Module):
    """Adds no position encoding."""

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        return tokens


Interpolation = Literal["bicubic", "bilinear"]


class LearnedPositions(nn.Module):
    """A learned table with one row per token. For a grid of another size, it is interpolated like an image."""

    def __init__(self, width: int, grid: Grid, interpolation: Interpolation = "bicubic") -> None:
        super().__init__()
        self.grid, self.interpolation = grid, interpolation
        self.table = nn.Parameter(torch.zeros(1, grid.tokens, width))

    def extra_repr(self) -> str:
        return str(self.grid)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        return tokens + resize_table(self.table, self.grid, grid, self.interpolation).to(tokens.dtype)


def resize_table(table: Tensor, old: Grid, new: Grid, interpolation: Interpolation = "bicubic") -> Tensor:
    """(1, old tokens, width) -> (1, new tokens, width); the rows of the leading tokens are kept.

    DeiT and transformers resize bicubically; timm adds antialiasing; the first ViT code used a linear zoom.
    """
    if old == new:
        return table
    prefix, feature_map = old.to_map(table)
    size = (new.height, new.width)
    resized = F.interpolate(feature_map.float(), size=size, mode=interpolation, align_corners=False)
    return new.to_tokens(prefix, resized.to(table.dtype))


class SinusoidalPositions(nn.Module):
    """Sines and cosines of the row in one half of the channels, of the column in the other; for any grid size."""

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 4:
            raise UserError("sinusoidal positions of an image", expected="a width that 4 divides", got=width)
        self.width = width

    def extra_repr(self) -> str:
        return f"width={self.width}"

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        rows = sinusoids(grid.height, self.width // 2, tokens.device)[:, None].expand(-1, grid.width, -1)
        columns = sinusoids(grid.width, self.width // 2, tokens.device)[None].expand(grid.height, -1, -1)
        table = torch.cat([rows, columns], dim=-1).flatten(0, 1)
        return tokens + F.pad(table, (0, 0, grid.prefix, 0)).to(tokens.dtype)


def sinusoids(length: int, width: int, device: torch.device) -> Tensor:
    """(length, width): sines, then cosines, of wavelengths from 2 pi to 10,000 * 2 pi (Vaswani et al., 2017, 3.5)"""
    frequencies = torch.exp(torch.arange(width // 2, device=device) * (-math.log(10_000.0) * 2 / width))
    angles = torch.arange(length, device=device)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
