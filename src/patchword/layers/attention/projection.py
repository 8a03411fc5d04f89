"""Projection: where queries, keys and values come from."""

from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.core.text import Packed
from patchword.layers.convolution.blocks import ConvNorm
from patchword.layers.convolution.depthwise import over_map
from patchword.layers.convolution.stem import PatchEmbed


class Projected(NamedTuple):
    """query (batch, queries, width); key and value (batch, keys, width); the mask; the grid of the keys."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    key_grid: Grid | None
    packed: Packed | None = None  # for packed text: each token attends to its own text
    static_kv: bool = False  # the keys do not come from the tokens: new tokens add none
    qkv: Tensor | None = None  # (batch, tokens, 3 * width): the three in one tensor, if they are

    def split_heads(self, parts: int) -> list["Projected"]:
        """Splits the channels into `parts` groups of heads."""
        if parts == 1:
            return [self]
        queries, keys, values = (tensor.chunk(parts, dim=-1) for tensor in (self.query, self.key, self.value))
        groups = zip(queries, keys, values, strict=True)
        return [self._replace(query=query, key=key, value=value, qkv=None) for query, key, value in groups]


class LinearProjection(nn.Module):
    """Queries, keys and values of the tokens themselves, by one fused matrix."""

    def __init__(self, width: int, bias: bool = True) -> None:
        super().__init__()
        self.joint = nn.Linear(width, 3 * width, bias)

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        return self.split(self.joint(tokens), scope)

    def split(self, qkv: Tensor, scope: Scope) -> Projected:
        """qkv: (batch, tokens, 3 * width), the output of the fused matrix"""
        query, key, value = qkv.chunk(3, dim=-1)
        return Projected(query, key, value, scope.mask, scope.grid, scope.packed, qkv=qkv)


class ReducedProjection(nn.Module):
    """PVT: keys and values come from a smaller copy of the map, in which each patch is one token.

    eps: of the norm after the reduction; 1e-5 in the authors' code, whose blocks use 1e-6.
    """

    def __init__(self, width: int, reduction: int, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias)
        self.reduce = PatchEmbed(width, width, reduction)
        self.norm = nn.LayerNorm(width, eps)
        self.joint = nn.Linear(width, 2 * width, bias)

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        grid = _image(scope)
        prefix, feature_map = grid.to_map(tokens)
        reduced, key_grid = self.reduce(feature_map)
        source = torch.cat([prefix, reduced], dim=1) if grid.prefix else reduced
        key, value = self.joint(self.norm(source)).chunk(2, dim=-1)
        return Projected(self.query(tokens), key, value, scope.mask, replace(key_grid, prefix=grid.prefix))


class SeparableProjection(nn.Module):
    """CvT and Pale: a depthwise 3 x 3 convolution and its norm come before each of the three matrices.

    stride: of the convolutions of keys and values. Prefix tokens bypass the convolutions.
    """

    def __init__(self, width: int, stride: int = 1, bias: bool = True) -> None:
        super().__init__()
        self.query = SeparableLinear(width, 1, bias)
        self.key = SeparableLinear(width, stride, bias)
        self.value = SeparableLinear(width, stride, bias)

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        grid = _image(scope)
        query, _ = self.query(tokens, grid)
        key, key_grid = self.key(tokens, grid)
        value, _ = self.value(tokens, grid)
        return Projected(query, key, value, scope.mask, key_grid)


class SeparableLinear(nn.Module):
    """A depthwise convolution over the map, then one matrix over all tokens."""

    def __init__(self, width: int, stride: int, bias: bool = True) -> None:
        super().__init__()
        self.depthwise = ConvNorm(width, width, 3, stride, groups=width)
        self.linear = nn.Linear(width, width, bias)

    def forward(self, tokens: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        """(batch, tokens, width) -> (batch, tokens of the map after the stride, width), and its grid"""
        convolved, grid = over_map(self.depthwise, tokens, grid)
        return cast(Tensor, self.linear(convolved)), grid


def _image(scope: Scope) -> Grid:
    assert scope.grid is not None, "this projection needs tokens on a grid"
    return scope.grid
