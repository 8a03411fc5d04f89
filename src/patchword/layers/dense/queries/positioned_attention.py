"""Attention that adds positions to queries and keys in every layer, and not to values (Carion et al., 2020)."""

from dataclasses import dataclass

from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers.attention.projection import Projected


@dataclass(frozen=True)
class PositionedScope(Scope):
    """A scope with positions: (batch, tokens, width) of the tokens, and of the memory. memory_grid: of the memory."""

    position: Tensor | None = None
    memory_position: Tensor | None = None
    memory_grid: Grid | None = None


class PositionedProjection(nn.Module):
    """Queries and keys of tokens + positions, by one fused matrix; values of the tokens."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query_key = nn.Linear(width, 2 * width)
        self.value = nn.Linear(width, width)

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        """(batch, tokens, width) -> queries, keys and values"""
        query, key = self.query_key(tokens + _position(scope)).chunk(2, dim=-1)
        return Projected(query, key, self.value(tokens), scope.mask, scope.grid)


class PositionedMemoryProjection(nn.Module):
    """Queries of tokens + positions; keys of memory + its positions; values of the memory."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        """(batch, tokens, width) -> queries, and keys and values of the memory"""
        assert isinstance(scope, PositionedScope), "this projection reads positions"
        assert scope.memory is not None, "this projection reads an encoder's output"
        assert scope.memory_position is not None, "the memory has positions"
        query, key = self.query(tokens + _position(scope)), self.key(scope.memory + scope.memory_position)
        value = self.value(scope.memory)
        return Projected(query, key, value, scope.memory_mask, scope.memory_grid, static_kv=True)


def _position(scope: Scope) -> Tensor:
    assert isinstance(scope, PositionedScope), "this projection reads positions"
    assert scope.position is not None, "the tokens have positions"
    return scope.position
