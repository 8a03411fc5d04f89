"""Big Bird's block-sparse attention pattern (Zaheer et al., 2020), whose cost is linear in the number of tokens.

A sequence of n tokens is divided into blocks of b. The first and the last block are global: they attend to all blocks,
and all blocks attend to them. Every other block attends to these two, to itself, to its two neighbours, and to r random
blocks per head. The keys of a block are gathered into (5 + r) b keys, so that no n x n matrix is ever held.

The softmax stays in the core: `attention_inputs` returns the queries and keys, `merge_blocks` merges the outputs.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.tracing import is_exporting, static_size, trace_constant
from patchword.layers.attention.partition import Full

RandomBlocks = Literal["seeded", "huggingface"]
Plan = npt.NDArray[np.int64]
_IN_PAPER = (1024, 3072, 4096)  # sequence lengths for which the authors kept their first algorithm
_REACH = 1024  # tokens; that algorithm draws among their blocks


class AttentionInputs(NamedTuple):
    """Queries, their keys and values, (batch, heads, tokens, width) each, and a mask (True = may attend)."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None


class BlockSparse(Full):
    """Block-sparse attention for sequences of more than 5 + 2 r blocks, full attention for shorter ones.

    seed: of the random blocks; the authors use the index of the layer.
    count: random blocks per block, r.
    positions: tokens of the longest sequence, on which the random blocks of the paper depend.
    random: "seeded" draws as the authors do, the same in training and evaluation. "huggingface" does what transformers
        does in evaluation: no block is drawn, and the first block is counted r more times instead.
    """

    def __init__(
        self, seed: int, block: int = 64, count: int = 3, positions: int = 4096, random: RandomBlocks = "seeded"
    ) -> None:
        self.seed, self.block, self.count, self.positions, self.random = seed, block, count, positions, random

    def is_sparse(self, tokens: int) -> bool:
        """True if sequences of this length use the sparse pattern."""
        return tokens > (5 + 2 * self.count) * self.block

    def read(self, blocks: int, heads: int) -> Tensor:
        """Returns the key blocks of all query blocks but the first and the last, (heads, blocks - 2, 5 + r)."""
        plan = self.random, self.seed, blocks, heads, self.block, self.count, self.positions
        if torch.compiler.is_compiling() and not is_exporting():
            return torch.tensor(_read_integers(*plan)).view(heads, blocks - 2, -1)
        return _read(*plan)

    def attention_inputs(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> tuple[AttentionInputs, AttentionInputs]:
        """(batch, heads, tokens, width) thrice -> the global blocks with all keys, the others with their keys"""
        if mask is not None and mask.shape[1:3] != (1, 1):
            raise UserError("block-sparse attention", expected="a mask of keys only", got=f"one of shape {mask.shape}")
        heads, tokens = query.shape[1], static_size(query.shape[2])  # a symbolic length takes the compiler minutes
        valid = _valid_keys(mask, tokens, -tokens % self.block, query.device)
        query, key, value = (self._blocked(part) for part in (query, key, value))
        blocks = query.shape[2]

        index = self.read(blocks, heads).to(query.device)
        allowed = _counted(index).repeat_interleave(self.block, -1)[None]
        if valid is not None:
            read = valid.unflatten(1, (blocks, self.block))[:, index].flatten(-2)  # (batch, heads, blocks - 2, keys)
            allowed = allowed & read
        few_keys, few_values = _gather(index, key), _gather(index, value)
        inner = AttentionInputs(
            query[:, :, 1:-1].flatten(1, 2), few_keys, few_values, allowed.flatten(1, 2)[:, :, None]
        )
        ends = torch.cat([query[:, :, 0], query[:, :, -1]], dim=2)
        seen = None if valid is None else valid[:, None, None]
        return AttentionInputs(ends, key.flatten(2, 3), value.flatten(2, 3), seen), inner

    def merge_blocks(self, ends: Tensor, inner: Tensor, tokens: int) -> Tensor:
        """Merges the outputs of both `attention_inputs`: -> (batch, heads, tokens, width)"""
        first, last = ends.split(self.block, dim=2)
        middle = inner.unflatten(1, (ends.shape[1], -1)).flatten(2, 3)
        return torch.cat([first, middle, last], dim=2)[:, :, :tokens]

    def dense(self, ends: Tensor, inner: Tensor, tokens: int) -> Tensor:
        """Returns the weights of both parts as one (batch, heads, tokens, tokens); sums those of a repeated block."""
        few, places = self._places(inner, ends.shape)
        full = few.new_zeros(self._full(few, ends.shape)).scatter_add(4, places, few)
        return self._around(ends, full, tokens)

    def dense_scores(self, ends: Tensor, inner: Tensor, tokens: int) -> Tensor:
        """Returns the scores of both parts, so that their softmax is what `dense` returns for the weights."""
        few, places = self._places(inner, ends.shape)
        lowest = few.new_full(self._full(few, ends.shape), torch.finfo(few.dtype).min / 2)
        most = lowest.scatter_reduce(4, places, few, "amax")
        times = torch.zeros_like(most).scatter_add(4, places, (few - most.gather(4, places)).exp())
        return self._around(ends, most + times.clamp(min=1).log(), tokens)

    def _places(self, inner: Tensor, ends: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Returns (batch, heads, blocks - 2, b, 5 + r, b), and the key block of each entry."""
        index = self.read(ends[-1] // self.block, ends[1]).to(inner.device)
        few = inner.unflatten(1, (ends[1], -1)).unflatten(-1, (-1, self.block))
        return few, index[None, :, :, None, :, None].expand_as(few)

    def _full(self, few: Tensor, ends: Sequence[int]) -> list[int]:
        return [*few.shape[:4], ends[-1] // self.block, self.block]

    def _around(self, ends: Tensor, full: Tensor, tokens: int) -> Tensor:
        first, last = ends.split(self.block, dim=2)
        return torch.cat([first, full.flatten(4, 5).flatten(2, 3), last], dim=2)[:, :, :tokens, :tokens]

    def _blocked(self, part: Tensor) -> Tensor:
        """(batch, heads, tokens, width) -> (batch, heads, blocks, b, width), padded at the end"""
        padded = F.pad(part, (0, 0, 0, -part.shape[2] % self.block))
        blocked: Tensor = padded.unflatten(2, (-1, self.block))
        return blocked


def _valid_keys(mask: Tensor | None, tokens: int, more: int, device: torch.device) -> Tensor | None:
    """Returns (batch or 1, tokens + more), True where a key is not padding; None if all are valid."""
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
    """Returns False where a neighbour is a global block, which is in the list already."""
    counts = torch.ones_like(index, dtype=torch.bool)
    counts[:, 0, 2] = counts[:, -1, 4] = False
    return counts


def _read(random: RandomBlocks, seed: int, blocks: int, heads: int, block: int, count: int, positions: int) -> Tensor:
    inner = np.arange(1, blocks - 1)
    fixed = np.stack([np.zeros_like(inner), np.full_like(inner, blocks - 1), inner - 1, inner, inner + 1], axis=-1)
    drawn = draw(seed, blocks, heads, block, count, positions)
    drawn = np.zeros_like(drawn) if random == "huggingface" else drawn
    index = np.concatenate([np.broadcast_to(fixed, (heads, *fixed.shape)), drawn], axis=-1)
    return torch.from_numpy(np.ascontiguousarray(index))  # NumPy follows the layout of `drawn`, which is transposed


@trace_constant  # integers: the compiler takes one constant tensor per function, so of one layer only
def _read_integers(
    random: RandomBlocks, seed: int, blocks: int, heads: int, block: int, count: int, positions: int
) -> list[int]:
    flat: list[int] = _read(random, seed, blocks, heads, block, count, positions).flatten().tolist()
    return flat


@lru_cache(maxsize=256)
def draw(seed: int, blocks: int, heads: int, block: int, count: int, positions: int) -> Plan:
    """Returns the authors' random blocks, (heads, blocks - 2, count), from NumPy's legacy generator, as theirs.

    There are two algorithms. For the lengths of the paper, each head in turn draws, for every block of the longest
    sequence, among blocks 1 to 15 (the first 1024 tokens) without those of the block's window; only for the last two
    blocks the window is not excluded. For sequences of 1024 tokens the last block can be drawn although it is global:
    it is counted twice then. For any other length, each block in turn draws, for every head, among the first 5 + 2 r
    blocks, without the first and last of these and without the block's window; blocks 1 and last but one do not draw
    each other.
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
    """Returns the blocks that a row may draw for the lengths of the paper."""
    columns = np.arange(1, last + 1)
    return columns if row >= longest - 3 else columns[abs(columns - row) > 1]


def _few(state: np.random.RandomState, row: int, near: int, count: int) -> Plan:
    """Draws `count` of the first `near` blocks: shuffles all, then skips those that may not be drawn."""
    shuffled = state.permutation(near)
    barred = {0, near - 1, row - 1, row, row + 1} | ({near - 2} if row == 1 else {1} if row == near - 2 else set())
    return shuffled[~np.isin(shuffled, list(barred))][:count]


def _first(state: np.random.RandomState, columns: Plan, count: int) -> Plan:
    return state.permutation(columns)[:count]
