"""Big Bird's partition (Zaheer et al., 2020): blocks of tokens that meet few others; cost grows with the length alone.

A text of n tokens in blocks of b. The first and the last block are global: they read everything and are read by all.
Every other block reads these two, itself and its two neighbours, and r blocks drawn at random for each head. The keys
of a block are gathered into one row of (5 + r) b, so that no matrix of n x n is ever held.

The softmax stays in the core: `meet` says which queries meet which keys, `merge_blocks` puts the answers back.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.errors import UserError
from patchword.layers.attention.partition import Full

RandomBlocks = Literal["seeded", "huggingface"]
Plan = npt.NDArray[np.int64]
_IN_PAPER = (1024, 3072, 4096)  # tokens of texts for which the authors kept their first way of drawing
_REACH = 1024  # ... which drew among the blocks of the first 1024 tokens


class Meeting(NamedTuple):
    """Queries, the keys and values they read, and a mask (True = may read): (batch, heads, tokens, width) each."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None


class BlockSparse(Full):
    """Texts of at most 5 + 2 r blocks meet everything, longer ones their blocks; that is decided anew for each batch.

    seed: of the random blocks; the authors use the number of the layer.
    positions: tokens of the longest text, on which the plans of the paper depend.
    random: "seeded" draws as the authors do, the same in training and evaluation. "huggingface" is what transformers
        does in evaluation: no block is drawn, and the first one counts r times more instead.
    """

    def __init__(
        self, seed: int, block: int = 64, count: int = 3, positions: int = 4096, random: RandomBlocks = "seeded"
    ) -> None:
        self.seed, self.block, self.count, self.positions, self.random = seed, block, count, positions, random

    def is_sparse(self, tokens: int) -> bool:
        return tokens > (5 + 2 * self.count) * self.block

    def read(self, blocks: int, heads: int) -> Tensor:
        """(heads, blocks - 2, 5 + r): which blocks are read by all but the first and the last"""
        plan = _read(self.random, self.seed, blocks, heads, self.block, self.count, self.positions)
        return cast(Tensor, plan)

    def meet(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Meeting, Meeting]:
        """(batch, heads, tokens, width) thrice -> the global blocks with all keys, the others with the few they read"""
        if mask is not None and mask.shape[1:3] != (1, 1):
            raise UserError("attention in blocks", expected="a mask of keys alone", got=f"one of shape {mask.shape}")
        heads, tokens = query.shape[1:3]
        there = _there(mask, tokens, -tokens % self.block, query.device)
        query, key, value = (self._blocked(part) for part in (query, key, value))
        blocks = query.shape[2]

        index = self.read(blocks, heads).to(query.device)
        allowed = _counted(index).repeat_interleave(self.block, -1)[None]
        if there is not None:
            read = there.unflatten(1, (blocks, self.block))[:, index].flatten(-2)  # (batch, heads, blocks - 2, keys)
            allowed = allowed & read
        few_keys, few_values = _gather(index, key), _gather(index, value)
        inner = Meeting(query[:, :, 1:-1].flatten(1, 2), few_keys, few_values, allowed.flatten(1, 2)[:, :, None])
        ends = torch.cat([query[:, :, 0], query[:, :, -1]], dim=2)
        seen = None if there is None else there[:, None, None]
        return Meeting(ends, key.flatten(2, 3), value.flatten(2, 3), seen), inner

    def merge_blocks(self, ends: Tensor, inner: Tensor, tokens: int) -> Tensor:
        """the way back: what both meetings answered -> (batch, heads, tokens, width)"""
        first, last = ends.split(self.block, dim=2)
        middle = inner.unflatten(1, (ends.shape[1], -1)).flatten(2, 3)
        return torch.cat([first, middle, last], dim=2)[:, :, :tokens]

    def dense(self, ends: Tensor, inner: Tensor, tokens: int) -> Tensor:
        """The weights of both meetings as one (batch, heads, tokens, tokens); of a block read twice the sum."""
        few, places = self._places(inner, ends.shape)
        full = few.new_zeros(self._full(few, ends.shape)).scatter_add(4, places, few)
        return self._around(ends, full, tokens)

    def dense_scores(self, ends: Tensor, inner: Tensor, tokens: int) -> Tensor:
        """The same of the scores: their softmax is what `dense` makes of the weights."""
        few, places = self._places(inner, ends.shape)
        lowest = few.new_full(self._full(few, ends.shape), torch.finfo(few.dtype).min / 2)
        most = lowest.scatter_reduce(4, places, few, "amax")
        times = torch.zeros_like(most).scatter_add(4, places, (few - most.gather(4, places)).exp())
        return self._around(ends, most + times.clamp(min=1).log(), tokens)

    def _places(self, inner: Tensor, ends: Sequence[int]) -> tuple[Tensor, Tensor]:
        """(batch, heads, blocks - 2, b, 5 + r, b), and of each the block it belongs to"""
        index = self.read(ends[-1] // self.block, ends[1]).to(inner.device)
        few = inner.unflatten(1, (ends[1], -1)).unflatten(-1, (-1, self.block))
        return few, index[None, :, :, None, :, None].expand_as(few)

    def _full(self, few: Tensor, ends: Sequence[int]) -> list[int]:
        return [*few.shape[:4], ends[-1] // self.block, self.block]

    def _around(self, ends: Tensor, full: Tensor, tokens: int) -> Tensor:
        first, last = ends.split(self.block, dim=2)
        return torch.cat([first, full.flatten(4, 5).flatten(2, 3), last], dim=2)[:, :, :tokens, :tokens]

    def _blocked(self, part: Tensor) -> Tensor:
        """(batch, heads, tokens, width) -> (batch, heads, blocks, b, width), padded behind"""
        padded = F.pad(part, (0, 0, 0, -part.shape[2] % self.block))
        blocked: Tensor = padded.unflatten(2, (-1, self.block))
        return blocked


def _there(mask: Tensor | None, tokens: int, more: int, device: torch.device) -> Tensor | None:
    """(batch or 1, tokens + more), True where a key may be read; None if all may"""
    if mask is None and not more:
        return None
    known = torch.ones(1, tokens, dtype=torch.bool, device=device) if mask is None else mask[:, 0, 0]
    return F.pad(known, (0, more), value=False)


def _gather(index: Tensor, part: Tensor) -> Tensor:
    """blocks (batch, heads, blocks, b, width) -> (batch, heads * (blocks - 2), (5 + r) b, width)"""
    heads, inner, _ = index.shape
    flat = (index + part.shape[2] * torch.arange(heads, device=index.device)[:, None, None]).flatten()
    gathered: Tensor = part.flatten(1, 2).index_select(1, flat).unflatten(1, (heads * inner, -1))
    return gathered.flatten(2, 3)


def _counted(index: Tensor) -> Tensor:
    """a global block is a neighbour, too, of the block beside it, but is read once"""
    counts = torch.ones_like(index, dtype=torch.bool)
    counts[:, 0, 2] = counts[:, -1, 4] = False
    return counts


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a compiler need not look inside
def _read(random: RandomBlocks, seed: int, blocks: int, heads: int, block: int, count: int, positions: int) -> Tensor:
    inner = np.arange(1, blocks - 1)
    fixed = np.stack([np.zeros_like(inner), np.full_like(inner, blocks - 1), inner - 1, inner, inner + 1], axis=-1)
    drawn = draw(seed, blocks, heads, block, count, positions)
    drawn = np.zeros_like(drawn) if random == "huggingface" else drawn
    return torch.from_numpy(np.concatenate([np.broadcast_to(fixed, (heads, *fixed.shape)), drawn], axis=-1))


@lru_cache(maxsize=256)
def draw(seed: int, blocks: int, heads: int, block: int, count: int, positions: int) -> Plan:
    """The authors' random blocks: (heads, blocks - 2, count), from NumPy's generator of 1997, as theirs are.

    There are two ways. For the lengths of the paper, each head in turn draws for every block of the longest text among
    the blocks 1 to 15 (of the first 1024 tokens) without those of its window; only the last two blocks of all forget to
    leave out theirs. The last block of a text of 1024 tokens may be drawn, though it is read by all: it counts twice
    then. For any other length each block in turn draws for every head among the first 5 + 2 r blocks, without the ends
    of these and its window; 1 and the last but one do not draw each other.
    """
    state = np.random.RandomState(seed)
    longest = positions // block
    last = min(_REACH // block - 1, longest - 2)
    if blocks * block in _IN_PAPER and last - 3 >= count and longest >= blocks:
        table = [
            [_first(state, _paper(row, last, longest), count) for row in range(1, longest - 1)] for _ in range(heads)
        ]
        return np.array(table)[:, : blocks - 2]
    rows = [[_few(state, row, 5 + 2 * count, count) for _ in range(heads)] for row in range(1, blocks - 1)]
    return np.array(rows).transpose(1, 0, 2)


def _paper(row: int, last: int, longest: int) -> Plan:
    """the blocks a row may draw in the paper's way"""
    columns = np.arange(1, last + 1)
    return columns if row >= longest - 3 else columns[abs(columns - row) > 1]


def _few(state: np.random.RandomState, row: int, near: int, count: int) -> Plan:
    """`count` of the first `near` blocks: all are shuffled, then those that may not be drawn are passed over"""
    shuffled = state.permutation(near)
    barred = {0, near - 1, row - 1, row, row + 1} | ({near - 2} if row == 1 else {1} if row == near - 2 else set())
    return shuffled[~np.isin(shuffled, list(barred))][:count]


def _first(state: np.random.RandomState, columns: Plan, count: int) -> Plan:
    return state.permutation(columns)[:count]
