"""Partition: which tokens meet. A rule over token indices, free of weights."""

from typing import Protocol

import torch
from torch import Tensor

from patchword.core.grid import Grid


class Partition(Protocol):
    """Tokens are split into groups, attend inside their group, and are merged back to where they were."""

    def split(self, tokens: Tensor, grid: Grid | None) -> Tensor:
        """(batch, tokens, width) -> (batch * groups, size, width); zeros stand where a group is padded"""
        ...

    def merge(self, groups: Tensor, grid: Grid | None) -> Tensor:
        """the way back: (batch * groups, size, width) -> (batch, tokens, width)"""
        ...

    def mask(self, grid: Grid | None, device: torch.device) -> Tensor | None:
        """(groups, 1, size, size), True where two members of a group may meet; None if all may"""
        ...

    def inner(self, grid: Grid | None) -> Grid | None:
        """how the members of one group lie to each other"""
        ...


class Full:
    """Every token meets every token: one group."""

    def split(self, tokens: Tensor, grid: Grid | None) -> Tensor:
        return tokens

    def merge(self, groups: Tensor, grid: Grid | None) -> Tensor:
        return groups

    def mask(self, grid: Grid | None, device: torch.device) -> Tensor | None:
        return None

    def inner(self, grid: Grid | None) -> Grid | None:
        return grid


class Causal(Full):
    """Every token meets itself and those before it, so that the next word can be asked for everywhere at once."""

    def earlier(self, queries: int, keys: int, device: torch.device) -> Tensor:
        """(queries, keys), True where a query may read a key; the queries are the last of the tokens"""
        return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def members(partition: Partition, tokens: int, grid: Grid | None) -> Tensor:
    """(groups, size): the index of the token at each place of each group, -1 where the group is padded.

    Read off `split` itself, so that no picture or map can disagree with what the model does.
    """
    numbered = torch.arange(1, tokens + 1).view(1, tokens, 1)
    return partition.split(numbered, grid)[..., 0] - 1
