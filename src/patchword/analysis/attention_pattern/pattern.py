"""One attention pattern: which tokens attend to which, as indices and counts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from patchword.analysis.attention_pattern.receptive_field import KeyReceptiveField
from patchword.core.grid import Grid
from patchword.layers import Partition, members


@dataclass(frozen=True, eq=False)
class AttentionPattern:
    """Which tokens of a stage attend to which, for one group of heads in some of its blocks."""

    stage: int  # counted from 1, as are the blocks
    blocks: tuple[int, ...]
    head_group: int  # counted from 1
    heads: int  # number of heads in the group
    partition: Partition
    grid: Grid
    key_grid: Grid
    key_receptive_field: KeyReceptiveField | None = None  # the tokens of each key, if there are fewer keys than tokens

    @cached_property
    def queries(self) -> Tensor:
        """(groups, size): the tokens of each group; -1 is padding."""
        return members(self.partition, self.grid.tokens, self.grid)

    @cached_property
    def keys(self) -> Tensor:
        """(groups, keys per group); -1 is padding."""
        return members(self.partition, self.key_grid.tokens, self.key_grid)

    @cached_property
    def mask(self) -> Tensor | None:
        """(groups, size, keys per group), True where a query may attend to a key; None if all may."""
        mask = self.partition.mask(self.grid, torch.device("cpu"))
        return None if mask is None else mask[:, 0]

    @property
    def groups(self) -> int:
        return len(self.queries)

    @property
    def size(self) -> int:
        """The size of a group, padding included."""
        return self.queries.shape[1]

    @property
    def is_reduced(self) -> bool:
        """Whether there are fewer keys than tokens."""
        return self.key_grid != self.grid

    @cached_property
    def pairs(self) -> int:
        """The number of query-key pairs that attend."""
        queries, keys = self.queries >= 0, self.keys >= 0
        if self.mask is None:
            return int((queries.sum(1) * keys.sum(1)).sum())
        return int((self.mask & queries[:, :, None] & keys[:, None]).sum())

    @property
    def computed(self) -> int:
        """The number of pairs that are computed: attended, masked and padded ones."""
        return self.queries.numel() * self.keys.shape[1]

    @property
    def all_pairs(self) -> int:
        """The number of pairs of global attention over the same tokens."""
        return self.grid.tokens**2

    @cached_property
    def regions(self) -> Tensor:
        """(groups, size): members of a group with the same number attend to each other; the largest region is 0."""
        if self.mask is None:
            return torch.zeros_like(self.queries)
        leaders = self.mask.long().argmax(-1)  # the first member that each may attend to
        regions = torch.zeros_like(self.queries)
        for group in range(self.groups):
            real = self.queries[group] >= 0
            found, counts = leaders[group][real].unique(return_counts=True)
            for number, place in enumerate(counts.argsort(descending=True, stable=True)):
                regions[group][leaders[group] == found[place]] = number
        return regions

    @cached_property
    def places(self) -> tuple[Tensor, Grid]:
        """(groups, size) and a padded map: the position of each member on it, with padding.

        Taken from the partition on a map of the padded size, where it agrees with the members of the real one.
        """
        inner = self.partition.inner(self.grid)
        if inner is None or bool((self.queries >= 0).all()):
            return self.queries, self.grid
        padded = Grid(_multiple(self.grid.height, inner.height), _multiple(self.grid.width, inner.width))
        places = members(self.partition, padded.tokens, padded)
        rows, columns = places // padded.width, places % padded.width
        inside = (rows < self.grid.height) & (columns < self.grid.width)
        real = torch.where(inside, rows * self.grid.width + columns, -1)
        assert torch.equal(real, self.queries), "the padding is not below and on the right"
        return places, padded

    @property
    def arrangement(self) -> tuple[int, int]:
        """The number of groups vertically and horizontally."""
        inner, padded = self.partition.inner(self.grid), self.places[1]
        if inner is None or inner.tokens != self.size:
            return self.groups, 1
        return padded.height // inner.height, padded.width // inner.width

    def token_at(self, place: tuple[int, int], first: Grid) -> int:
        """Return the token at the position that corresponds to (row, column) on the first stage's map."""
        row = (2 * place[0] + 1) * self.grid.height // (2 * first.height)
        column = (2 * place[1] + 1) * self.grid.width // (2 * first.width)
        return self.grid.prefix + row * self.grid.width + column

    def attended_keys(self, tokens: Tensor) -> Tensor:
        """(tokens,) mask of queries -> (keys,) mask of the keys that any of them attends to."""
        querying = tokens[self.queries] & (self.queries >= 0)
        if self.mask is None:
            attended = querying.any(1, keepdim=True).expand(self.keys.shape)
        else:
            attended = (self.mask & querying[:, :, None]).any(1)
        answer = torch.zeros(self.key_grid.tokens, dtype=torch.bool)
        answer[self.keys[attended & (self.keys >= 0)]] = True
        return answer

    def attended_tokens(self, tokens: Tensor) -> Tensor:
        """(tokens,) mask of queries -> (tokens,) mask of the tokens that the keys they attend to are made of."""
        keys = self.attended_keys(tokens)
        made = self.key_receptive_field
        if made is None:
            return keys
        attended = keys[self.key_grid.prefix :].view(self.key_grid.height, self.key_grid.width)
        used = (made.rows.T.float() @ attended.float() @ made.columns.float()) > 0
        return torch.cat([keys[: self.key_grid.prefix], used.flatten()])

    def to_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "blocks": list(self.blocks),
            "heads": self.heads,
            "grid": [self.grid.height, self.grid.width],
            "leading_tokens": self.grid.prefix,
            "key_grid": [self.key_grid.height, self.key_grid.width],
            "groups": self.groups,
            "group_size": self.size,
            "keys_per_group": self.keys.shape[1],
            "pairs": self.pairs,
            "computed_pairs": self.computed,
            "all_pairs": self.all_pairs,
            "density": self.pairs / self.all_pairs,
        }

    def same_as(self, other: "AttentionPattern") -> bool:
        """Return whether the same heads of the same stage attend to the same tokens, whatever the partition's name."""
        if (self.stage, self.head_group, self.grid, self.key_grid) != (
            other.stage,
            other.head_group,
            other.grid,
            other.key_grid,
        ):
            return False
        if not (torch.equal(self.queries, other.queries) and torch.equal(self.keys, other.keys)):
            return False
        if self.mask is None or other.mask is None:
            return self.mask is other.mask
        return torch.equal(self.mask, other.mask)


def _multiple(side: int, of: int) -> int:
    return -(-side // of) * of
