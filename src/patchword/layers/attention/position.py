"""Position inside attention. It may enter in three places and no others."""

from torch import Tensor, nn

from patchword.core.grid import Grid


class Position(nn.Module):
    """Leaves attention as it is; a scheme overrides the places it needs.

    query, key, value, attended: (batch * groups, heads, tokens, head width). `inner` is the grid of one group.
    """

    def rotate(self, query: Tensor, key: Tensor, inner: Grid | None) -> tuple[Tensor, Tensor]:
        """before the scores"""
        return query, key

    def bias(self, query: Tensor, key: Tensor, inner: Grid | None) -> Tensor | None:
        """on the scores; broadcasts to (batch * groups, heads, queries, keys)"""
        return None

    def enhance(self, attended: Tensor, value: Tensor, inner: Grid | None) -> Tensor:
        """after the values are mixed"""
        return attended
