"""One way in which tokens meet, in real numbers."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from patchword.analysis.attention_pattern.receptive_field import Footprint
from patchword.core.grid import Grid
from patchword.layers import Partition, members


@dataclass(frozen=True, eq=False)
class AttentionPattern:
    """How the tokens of a stage meet for one group of heads, in some of its blocks."""

    stage: int  # counted from 1, as are the blocks
    blocks: tuple[int, ...]
    share: int  # which group of heads, counted from 1
    heads: int  # how many heads it has
    partition: Partition
    grid: Grid
    key_grid: Grid
    footprint: Footprint | None = None  # which tokens a key is made of, where there are fewer keys than tokens

    @cached_property
    def queries(self) -> Tensor:
        """(groups, size): the token at each place of each group; -1 is padding"""
        return members(self.partition, self.grid.tokens, self.grid)

    @cached_property
    def keys(self) -> Tensor:
        """(groups, keys of a group); -1 is padding"""
        return members(self.partition, self.key_grid.tokens, self.key_grid)

    @cached_property
    def mask(self) -> Tensor | None:
        """(groups, size, keys of a group), True where two may meet; None if all may"""
        mask = self.partition.mask(self.grid, torch.device("cpu"))
        return None if mask is None else mask[:, 0]

    @property
    def groups(self) -> int:
        return len(self.queries)

    @property
    def size(self) -> int:
        """of a group, padding included"""
        return self.queries.shape[1]

    @property
    def is_reduced(self) -> bool:
        """there are fewer keys than tokens"""
        return self.key_grid != self.grid

    @cached_property
    def pairs(self) -> int:
        """how many pairs of a token and a key meet"""
        queries, keys = self.queries >= 0, self.keys >= 0
        if self.mask is None:
            return int((queries.sum(1) * keys.sum(1)).sum())
        return int((self.mask & queries[:, :, None] & keys[:, None]).sum())

    @property
    def computed(self) -> int:
        """how many pairs are multiplied out: those that meet, and those that are masked or padding"""
        return self.queries.numel() * self.keys.shape[1]

    @property
    def all_pairs(self) -> int:
        """what global attention over the same tokens would let meet"""
        return self.grid.tokens**2

    @cached_property
    def pieces(self) -> Tensor:
        """(groups, size): members of a group with the same number meet each other; the largest piece is 0"""
        if self.mask is None:
            return torch.zeros_like(self.queries)
        leaders = self.mask.long().argmax(-1)  # the first member that each may meet
        pieces = torch.zeros_like(self.queries)
        for group in range(self.groups):
            real = self.queries[group] >= 0
            found, counts = leaders[group][real].unique(return_counts=True)
            for number, place in enumerate(counts.argsort(descending=True, stable=True)):
                pieces[group][leaders[group] == found[place]] = number
        return pieces

    @cached_property
    def places(self) -> tuple[Tensor, Grid]:
        """(groups, size), and a map large enough for the padding: where on it each member sits, padding, too

        Read off the partition, on a map of the padded size; there it agrees with the members of the real one.
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
        """how many groups there are below and beside each other"""
        inner, padded = self.partition.inner(self.grid), self.places[1]
        if inner is None or inner.tokens != self.size:
            return self.groups, 1
        return padded.height // inner.height, padded.width // inner.width

    def token_at(self, place: tuple[int, int], first: Grid) -> int:
        """The token that lies where (row, column) lies on the map of the first stage."""
        row = (2 * place[0] + 1) * self.grid.height // (2 * first.height)
        column = (2 * place[1] + 1) * self.grid.width // (2 * first.width)
        return self.grid.prefix + row * self.grid.width + column

    def reads(self, tokens: Tensor) -> Tensor:
        """(tokens,) some of them -> (keys,) the keys that any of these meets"""
        asking = tokens[self.queries] & (self.queries >= 0)
        if self.mask is None:
            met = asking.any(1, keepdim=True).expand(self.keys.shape)
        else:
            met = (self.mask & asking[:, :, None]).any(1)
        answer = torch.zeros(self.key_grid.tokens, dtype=torch.bool)
        answer[self.keys[met & (self.keys >= 0)]] = True
        return answer

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
            "keys_of_a_group": self.keys.shape[1],
            "pairs": self.pairs,
            "computed_pairs": self.computed,
            "all_pairs": self.all_pairs,
            "share": self.pairs / self.all_pairs,
        }

    def alike(self, other: "AttentionPattern") -> bool:
        """the same heads of the same stage let the same tokens meet, whatever the partitions are called"""
        if (self.stage, self.share, self.grid, self.key_grid) != (other.stage, other.share, other.grid, other.key_grid):
            return False
        if not (torch.equal(self.queries, other.queries) and torch.equal(self.keys, other.keys)):
            return False
        if self.mask is None or other.mask is None:
            return self.mask is other.mask
        return torch.equal(self.mask, other.mask)


def _multiple(side: int, of: int) -> int:
    return -(-side // of) * of
