"""Learnable Fourier features (Li et al., 2021): sines and cosines with learned frequencies, then a small MLP.

The encoding is smooth in the position, learned, defined for every position, and works in several dimensions.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid


class FourierFeatures(nn.Module):
    """Algorithm 1: F = [cos(x Wr), sin(x Wr)] / sqrt(|F|), Y = GELU(F W1 + b1) W2 + b2.

    dimensions: M, of a position. groups: G, positions per token; each gives width / G of the channels.
    features: |F|; hidden: |H|; None means the width. gamma: Wr is initialized with standard deviation 1 / gamma.

    The parameters are not nn.Linear modules, so that a model's own initialization leaves them alone: Y then has the
    scale of the word embeddings.
    """

    def __init__(
        self,
        width: int,
        dimensions: int = 1,
        *,
        groups: int = 1,
        features: int | None = None,
        hidden: int | None = None,
        gamma: float = 10.0,
    ) -> None:
        super().__init__()
        features, hidden = features or width + width % 2, hidden or width
        if features % 2 or width % groups:
            expected = "an even number of features, and a width that the groups divide"
            raise UserError("Fourier features", expected=expected, got=f"{features} and {width} / {groups}")
        self.dimensions, self.groups, self.gamma = dimensions, groups, gamma
        self.frequencies = nn.Parameter(torch.randn(dimensions, features // 2) / gamma)  # Wr
        self.up = nn.Parameter(torch.randn(hidden, features))  # the norm of F is sqrt(1/2) for any |F|
        self.up_bias = nn.Parameter(torch.zeros(hidden))
        self.down = nn.Parameter(torch.randn(width // groups, hidden) * hidden**-0.5 * _SIZE)
        self.down_bias = nn.Parameter(torch.zeros(width // groups))

    def extra_repr(self) -> str:
        return f"dimensions={self.dimensions}, groups={self.groups}, gamma={self.gamma:g}"

    def forward(self, places: Tensor) -> Tensor:
        """(..., groups, dimensions) -> (..., width)"""
        angles = places.to(self.frequencies.dtype) @ self.frequencies
        features = torch.cat([angles.cos(), angles.sin()], dim=-1) * self.up.shape[1] ** -0.5
        inner = F.gelu(F.linear(features, self.up, self.up_bias))
        return F.linear(inner, self.down, self.down_bias).flatten(-2)


_SIZE = 0.05  # scale of the output: close to that of the word embeddings, N(0, 0.02)


class FourierTextPositions(nn.Module):
    """Fourier position vectors for the tokens of a text, whose positions are numbers."""

    def __init__(self, width: int, gamma: float = 10.0) -> None:
        super().__init__()
        self.features = FourierFeatures(width, gamma=gamma)

    def forward(self, places: Tensor) -> Tensor:
        """(...) -> (..., width)"""
        return cast(Tensor, self.features(places[..., None, None]))


class FourierPositions(nn.Module):
    """Fourier position vectors for image patches, by row and column. Leading tokens get none."""

    def __init__(self, width: int, gamma: float = 10.0) -> None:
        super().__init__()
        self.features = FourierFeatures(width, 2, gamma=gamma)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        rows, columns = (torch.arange(side, device=tokens.device) for side in (grid.height, grid.width))
        places = torch.cartesian_prod(rows, columns)[:, None]
        return tokens + F.pad(self.features(places), (0, 0, grid.prefix, 0)).to(tokens.dtype)
