"""Partition: which tokens attend to which. A rule over token indices, without weights."""

from typing import Protocol

import torch
from torch import Tensor

from patchword.core.grid import Grid
from patchword.layers.attention.kernel_support import KernelSupport


class Partition(Protocol):
    """Splits tokens into groups, which attend inside themselves, and merges the groups again."""

    def split(self, tokens: Tensor, grid: Grid | None) -> Tensor:
        """(batch, tokens, width) -> (batch * groups, size, width); padding of a group is zero"""
        ...

    def merge(self, groups: Tensor, grid: Grid | None) -> Tensor:
        """Inverts `split`: (batch * groups, size, width) -> (batch, tokens, width)"""
        ...

    def mask(self, grid: Grid | None, device: torch.device) -> Tensor | None:
        """Returns (groups, 1, size, size), True where a member of a group may attend to another; None if all may."""
        ...

    def inner(self, grid: Grid | None) -> Grid | None:
        """Returns the grid of the members of one group."""
        ...


class Full(KernelSupport, kernels=["dense", "varlen"]):
    """Every token attends to every token: one group."""

    def split(self, tokens: Tensor, grid: Grid | None) -> Tensor:
        return tokens

    def merge(self, groups: Tensor, grid: Grid | None) -> Tensor:
        return groups

    def mask(self, grid: Grid | None, device: torch.device) -> Tensor | None:
        return None

    def inner(self, grid: Grid | None) -> Grid | None:
        return grid


class Causal(Full, kernels=["varlen"]):
    """Every token attends to itself and to the tokens before it."""

    def earlier(self, queries: int, keys: int, device: torch.device) -> Tensor:
        """Returns (queries, keys), True where a query may attend to a key; the queries are the last tokens."""
        return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def members(partition: Partition, tokens: int, grid: Grid | None) -> Tensor:
    """Returns the token indices of the members of each group, (groups, size); -1 is padding.

    Computed with `split` itself, so that figures and attention maps agree with the model.
    """
    numbered = torch.arange(1, tokens + 1).view(1, tokens, 1)
    return partition.split(numbered, grid)[..., 0] - 1
