"""The core: softmax(Q K' * scale + bias) V, the only softmax over keys in the library.

Because there is one, one switch chooses how every family computes it, one recorder sees every attention map, and one
rule counts its multiplications.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from patchword.core.grid import Grid
from patchword.kernels.varlen_attention.operation import has_varlen_attention_kernel, varlen_attention
from patchword.kernels.window_attention.operation import has_window_kernel, windows
from patchword.layers.attention.block_sparse import BlockSparse
from patchword.layers.attention.partition import Causal, Full, Partition
from patchword.layers.attention.position import Position
from patchword.layers.attention.projection import Projected
from patchword.layers.attention.window_kernel import is_known, on_one_map, share_of
from patchword.layers.watched import has_hooks

SOUND = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Pattern(nn.Module):
    """Who meets whom, and how position enters when they do; one pattern for each group of heads."""

    def __init__(self, partition: Partition | None = None, position: Position | None = None) -> None:
        super().__init__()
        self.partition = partition or Full()
        self.position = position or Position()


def stays_in_row(pattern: Pattern) -> bool:
    """The kernel for rows knows no other partition and no position inside attention."""
    return type(pattern.partition) in (Full, Causal) and type(pattern.position) is Position


# weights, the scores they are the softmax of, the pattern, the grids of queries and of keys
Recorder = Callable[[Tensor, Tensor, Pattern, Grid | None, Grid | None], None]


class ScaledDotProduct(nn.Module):
    """Runs one pattern: split, attend, merge.

    `fused` picks torch's fused attention or the plain formula; while a `recorder` is set, or where position reads the
    weights, the plain one runs, since the fused one never holds them. Both compute the same numbers.
    """

    def __init__(self, heads: int, scale: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.scale, self.dropout = heads, scale, dropout
        self.fused = True
        self.recorder: Recorder | None = None

    def extra_repr(self) -> str:
        return f"heads={self.heads}, scale={self.scale:.4g}, dropout={self.dropout}"

    @property
    def _rate(self) -> float:
        """of weights that are dropped"""
        return self.dropout if self.training else 0.0

    def over(self, projected: Projected, patterns: Sequence[Pattern], grid: Grid | None) -> Tensor:
        """All patterns, each with its share of the channels: (batch, tokens, width) thrice -> (batch, tokens, width)"""
        if self._can_stay_in_place(projected, patterns, grid):
            query = projected.query
            shares = [share_of(pattern.partition, pattern.position, grid, query) for pattern in patterns]
            held = list(projected[:3]) if projected.joint is None else [projected.joint]
            return windows(held, shares, self.heads, self.scale, self._rate)
        each = zip(projected.share(len(patterns)), patterns, strict=True)
        parts = [self(share, pattern, grid) for share, pattern in each]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def _can_stay_in_place(self, projected: Projected, patterns: Sequence[Pattern], grid: Grid | None) -> bool:
        """The kernel for rectangles holds no weights; some are dropped where all tokens meet, as in a text."""
        plain = not self.fused or self.recorder is not None or self._rate >= 1
        if self._rate and any(type(pattern.partition) is not Full for pattern in patterns):
            return False
        if plain or has_hooks(self) or not all(is_known(pattern.partition, pattern.position) for pattern in patterns):
            return False
        head = projected.query.shape[-1] // (self.heads * len(patterns))
        partitions = [pattern.partition for pattern in patterns]
        return on_one_map(projected, partitions, grid, head) and has_window_kernel(projected.query, head)

    def forward(self, projected: Projected, pattern: Pattern, grid: Grid | None) -> Tensor:
        """(batch, tokens, width) thrice -> (batch, tokens, width)"""
        rows = projected.rows
        if rows is None:
            return self._attend(projected, pattern, grid)
        if self.fused and self.recorder is None and self._can_stay_in_row(projected.query, pattern):
            query, key, value = (part[0].unflatten(-1, (self.heads, -1)) for part in projected[:3])
            causal = isinstance(pattern.partition, Causal)
            return varlen_attention(query, key, value, rows, self.scale, causal, self._rate).flatten(1)[None]
        query, key, value = (rows.pad(part) for part in projected[:3])
        padded = Projected(query, key, value, rows.mask[:, None, None], None)
        return rows.join(self._attend(padded, pattern, None))

    def _can_stay_in_row(self, query: Tensor, pattern: Pattern) -> bool:
        return stays_in_row(pattern) and has_varlen_attention_kernel(query, query.shape[-1] // self.heads, self._rate)

    def _attend(self, projected: Projected, pattern: Pattern, grid: Grid | None) -> Tensor:
        partition, position, inner = pattern.partition, pattern.position, pattern.partition.inner(grid)
        query = self._to_heads(partition.split(projected.query, grid))
        key = self._to_heads(partition.split(projected.key, projected.key_grid))
        value = self._to_heads(partition.split(projected.value, projected.key_grid))

        query, key = position.rotate(query, key, inner)
        bias = position.bias(query, key, inner)
        bias = _forbid(bias, projected.mask)
        bias = _forbid(bias, _for_each_image(partition.mask(grid, query.device), query.shape[0]))

        fused = self.fused and self.recorder is None and not position.reads_weights
        in_order = False
        if isinstance(partition, Causal):  # the fused kernels know the order by themselves if there is no other mask
            in_order = fused and bias is None and query.shape[2] == key.shape[2]
            earlier = None if in_order else partition.earlier(query.shape[2], key.shape[2], query.device)
            bias = _forbid(bias, earlier)

        if isinstance(partition, BlockSparse) and partition.is_sparse(query.shape[2]):
            attended = self._in_blocks(query, key, value, bias, pattern, partition)
        elif fused:
            attended = self._fused(query, key, value, bias, in_order)
        else:
            scores = self._scores(query, key, bias)
            weights = _weights(scores, bias)
            if self.recorder is not None:
                self.recorder(weights, scores, pattern, grid, projected.key_grid)
            attended = position.mix(F.dropout(weights, self.dropout, self.training), value, inner)
        attended = position.enhance(attended, value, inner)
        return partition.merge(attended.transpose(1, 2).flatten(2), grid)

    def _to_heads(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width) -> (batch, heads, tokens, head width)"""
        split: Tensor = tokens.unflatten(-1, (self.heads, -1))
        return split.transpose(1, 2)

    def _fused(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, in_order: bool) -> Tensor:
        if bias is not None and bias.ndim == 3:  # on a CPU the fused kernel takes masks of two or four dimensions alone
            bias = bias[None]
        with _sound(query, bias):
            return F.scaled_dot_product_attention(query, key, value, bias, self._rate, in_order, scale=self.scale)

    def _in_blocks(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, pattern: Pattern, partition: BlockSparse
    ) -> Tensor:
        """A softmax for the global blocks and one for all others; without dropout, as the authors have it."""
        tokens, meetings = query.shape[2], partition.meet(query, key, value, mask)
        if self.fused and self.recorder is None:
            with _sound(query, meetings[1].mask):
                ends, inner = (F.scaled_dot_product_attention(*meeting, scale=self.scale) for meeting in meetings)
            return partition.merge_blocks(ends, inner, tokens)
        scores = [self._scores(meeting.query, meeting.key, meeting.mask) for meeting in meetings]
        weights = [_weights(score, meeting.mask) for score, meeting in zip(scores, meetings, strict=True)]
        if self.recorder is not None:
            dense = partition.dense(weights[0], weights[1], tokens)
            self.recorder(dense, partition.dense_scores(scores[0], scores[1], tokens), pattern, None, None)
        ends, inner = (weight @ meeting.value for weight, meeting in zip(weights, meetings, strict=True))
        return partition.merge_blocks(ends, inner, tokens)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        """(batch, heads, queries, head width), (batch, heads, keys, head width) -> (batch, heads, queries, keys)"""
        return query @ key.transpose(-2, -1) * self.scale

    def _scores(self, query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
        scores = self.compare(query, key)
        if bias is None:
            return scores
        return scores.masked_fill(~bias, _lowest(scores)) if bias.dtype == torch.bool else scores + bias


def _weights(scores: Tensor, bias: Tensor | None) -> Tensor:
    weights = scores.softmax(-1)
    # zeroed once more for a query that may read nothing: it gets nothing, as from the fused kernels
    return weights.masked_fill(~bias, 0.0) if bias is not None and bias.dtype == torch.bool else weights


def _sound(query: Tensor, bias: Tensor | None) -> AbstractContextManager[object]:
    """Without cuDNN's kernel where a mask is learned through: at some lengths its gradient is not a number on H100 and
    H200 (PyTorch issue 196678, since 2.11)."""
    risky = bias is not None and query.is_cuda and torch.is_grad_enabled()
    return sdpa_kernel(SOUND) if risky else nullcontext()


def _for_each_image(mask: Tensor | None, groups: int) -> Tensor | None:
    """a partition's mask, one for each group of an image, for the groups of all images"""
    return mask if mask is None else mask.repeat(groups // mask.shape[0], 1, 1, 1)


def _forbid(bias: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """Adds a mask (True = may read) to a bias; a mask alone stays boolean, which the fused kernels take as it is."""
    if mask is None:
        return bias
    if bias is None:
        return mask
    if bias.dtype == torch.bool:
        return bias & mask
    return bias.masked_fill(~mask, _lowest(bias))


def _lowest(tensor: Tensor) -> float:
    # Half of the lowest number: finite, so that a query with no key left yields a mean and not a NaN.
    return torch.finfo(tensor.dtype).min / 2
