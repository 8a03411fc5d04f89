"""Relative position vectors (Shaw et al., 2018), added to keys and values by their distance from the query."""

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.layers.attention.position import Position


class RelativeVectors(Position):
    """score = q (k + a)' * scale, output = sum of weight * (v + b); a and b are vectors of the clipped distance.

    Equations 3 to 5 of the paper. Distances above `reach` use the vectors of `reach`. All heads share the vectors.
    On a grid, row and column distances are clipped separately, and every pair of both has its vectors; leading tokens
    have one more pair of vectors, for all their keys.
    """

    reads_weights = True

    def __init__(self, head: int, reach: int = 16, *, dimensions: int = 1, scale: float | None = None) -> None:
        """head: channels of one head. scale: that of the attention; None is its default."""
        super().__init__()
        if reach < 1:
            raise UserError("relative positions", expected="a distance of 1 or more", got=reach)
        self.reach, self.dimensions = reach, dimensions
        self.scale = scale if scale is not None else head**-0.5
        count = (2 * reach + 1) ** dimensions + (dimensions > 1)
        self.keys = nn.Parameter(torch.randn(count, head) * _START)
        self.values = nn.Parameter(torch.randn(count, head) * _START)

    def extra_repr(self) -> str:
        return f"reach={self.reach}, dimensions={self.dimensions}"

    def bias(self, query: Tensor, key: Tensor, inner: Grid | None) -> Tensor:
        """Returns q a' * scale, (batch, heads, queries, keys), from one matrix product with all vectors."""
        products = query @ self.keys.to(query.dtype).t() * self.scale
        index = self._relations(query.shape[2], key.shape[2], inner, query.device).expand(*query.shape[:3], -1)
        return products.gather(-1, index)

    def mix(self, weights: Tensor, value: Tensor, inner: Grid | None) -> Tensor:
        """Sums the weights of keys at the same distance first, so that no tensor of (queries, keys, width) is held."""
        index = self._relations(weights.shape[2], value.shape[2], inner, weights.device).expand_as(weights)
        by_distance = weights.new_zeros(*weights.shape[:3], len(self.values)).scatter_add(-1, index, weights)
        return weights @ value + by_distance @ self.values.to(weights.dtype)

    def _relations(self, queries: int, keys: int, inner: Grid | None, device: torch.device) -> Tensor:
        """Returns the index of the vectors of each pair, (queries, keys)."""
        if self.dimensions == 1:
            return self._clipped(queries, keys, device)
        assert inner is not None, "relative positions of two dimensions need tokens on a grid"
        rows, columns = (self._clipped(side, side, device) for side in (inner.height, inner.width))
        pairs = rows[:, None, :, None] * (2 * self.reach + 1) + columns[None, :, None, :]
        whole = pairs.new_full((inner.tokens, inner.tokens), len(self.keys) - 1)
        whole[inner.prefix :, inner.prefix :] = pairs.flatten(2).flatten(0, 1)
        return whole

    def _clipped(self, queries: int, keys: int, device: torch.device) -> Tensor:
        """Returns clipped distances, (queries, keys), from 0 to 2 * reach; the queries are the last tokens."""
        places = torch.arange(keys, device=device)
        return (places - places[keys - queries :, None]).clamp(-self.reach, self.reach) + self.reach


_START = 0.02
