"""Projection: where queries, keys and values come from."""

from typing import NamedTuple

from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope


class Projected(NamedTuple):
    """query (batch, queries, width); key and value (batch, keys, width); who may read whom; where the keys sit."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    key_grid: Grid | None

    def share(self, parts: int) -> list["Projected"]:
        """the channels dealt out to `parts` groups of heads"""
        if parts == 1:
            return [self]
        queries, keys, values = (tensor.chunk(parts, dim=-1) for tensor in (self.query, self.key, self.value))
        shares = zip(queries, keys, values, strict=True)
        return [Projected(query, key, value, self.mask, self.key_grid) for query, key, value in shares]


class LinearProjection(nn.Module):
    """Queries, keys and values of the tokens themselves, by one fused matrix."""

    def __init__(self, width: int, bias: bool = True) -> None:
        super().__init__()
        self.joint = nn.Linear(width, 3 * width, bias)

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        query, key, value = self.joint(tokens).chunk(3, dim=-1)
        return Projected(query, key, value, scope.mask, scope.grid)
