"""The core: softmax(Q K' * scale + bias) V, the only softmax over keys in the library.

Because there is only one, one switch selects how every family computes it, one recorder collects every attention map,
and one rule counts its multiplications.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.kernels.sdpa import sdpa
from patchword.kernels.varlen_attention import varlen_attention
from patchword.kernels.window_attention import window_attention
from patchword.layers.attention.block_sparse import BlockSparse
from patchword.layers.attention.partition import Causal
from patchword.layers.attention.pattern import Pattern as Pattern
from patchword.layers.attention.projection import Projected
from patchword.layers.attention.window_kernel import describe, fits_window_kernel, is_dense

# weights, the scores they are the softmax of, the pattern, the grids of queries and of keys
Recorder = Callable[[Tensor, Tensor, Pattern, Grid | None, Grid | None], None]


def supports_varlen(pattern: Pattern) -> bool:
    """True if packed sequences with this pattern need no padding where torch's kernel for them runs."""
    return pattern.supports("varlen")


class ScaledDotProduct(nn.Module):
    """Runs one pattern: split, attend, merge.

    `fused` selects fused kernels. If it is False, while a `recorder` is set, or where position reads the weights, the
    formula runs in single operations, because fused kernels never hold the weights. Both compute the same numbers.
    """

    def __init__(self, heads: int, scale: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.scale, self.dropout = heads, scale, dropout
        self.fused = True
        self.recorder: Recorder | None = None

    def extra_repr(self) -> str:
        return f"heads={self.heads}, scale={self.scale:.4g}, dropout={self.dropout}"

    @property
    def _dropout_rate(self) -> float:
        return self.dropout if self.training else 0.0

    def forward(self, projected: Projected, patterns: Sequence[Pattern], grid: Grid | None) -> Tensor:
        """Runs all patterns, each with its group of heads: (batch, tokens, width) thrice -> (batch, tokens, width)"""
        if not self._is_fused() or not fits_window_kernel(projected, patterns, grid):
            return self._attend_by_pattern(projected, patterns, grid)
        return window_attention(
            list(projected[:3]) if projected.qkv is None else [projected.qkv],
            [partial(describe, pattern.partition, pattern.position, grid, projected.query) for pattern in patterns],
            self.heads,
            self.scale,
            self._dropout_rate,
            dense=is_dense(patterns),
            convolutions=[part for pattern in patterns for part in pattern.position.children()],
            reference=partial(self._attend_by_pattern, projected, patterns, grid),
        )

    def _is_fused(self) -> bool:
        return self.fused and self.recorder is None

    def _attend_by_pattern(self, projected: Projected, patterns: Sequence[Pattern], grid: Grid | None) -> Tensor:
        each = zip(projected.split_heads(len(patterns)), patterns, strict=True)
        parts = [self._attend_packed(channels, pattern, grid) for channels, pattern in each]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def _attend_packed(self, projected: Projected, pattern: Pattern, grid: Grid | None) -> Tensor:
        """One pattern; packed sequences without padding where a kernel supports them, and padded elsewhere."""
        packed = projected.packed
        if packed is None:
            return self._attend(projected, pattern, grid)
        if self._is_fused() and pattern.supports("varlen"):
            query, key, value = (part[0].unflatten(-1, (self.heads, -1)) for part in projected[:3])
            causal = isinstance(pattern.partition, Causal)
            return varlen_attention(query, key, value, packed, self.scale, causal, self._dropout_rate).flatten(1)[None]
        query, key, value = (packed.pad(part) for part in projected[:3])
        padded = Projected(query, key, value, packed.mask[:, None, None], None)
        return packed.join(self._attend(padded, pattern, None))

    def _attend(self, projected: Projected, pattern: Pattern, grid: Grid | None) -> Tensor:
        partition, position, inner = pattern.partition, pattern.position, pattern.partition.inner(grid)
        query = self._to_heads(partition.split(projected.query, grid))
        key = self._to_heads(partition.split(projected.key, projected.key_grid))
        value = self._to_heads(partition.split(projected.value, projected.key_grid))

        query, key = position.rotate(query, key, inner)
        bias = position.bias(query, key, inner)
        bias = _forbid(bias, projected.mask)
        bias = _forbid(bias, _repeat_for_images(partition.mask(grid, query.device), query.shape[0]))

        fused = self._is_fused() and not position.reads_weights
        is_causal = False
        if isinstance(partition, Causal):  # fused kernels have a causal mode, for use without any other mask
            is_causal = fused and bias is None and bool(query.shape[2] == key.shape[2])  # symbolic in torch.export
            earlier = None if is_causal else partition.earlier(query.shape[2], key.shape[2], query.device)
            bias = _forbid(bias, earlier)

        if isinstance(partition, BlockSparse) and partition.is_sparse(query.shape[2]):
            attended = self._in_blocks(query, key, value, bias, pattern, partition)
        elif fused:
            attended = sdpa(query, key, value, bias, self._dropout_rate, is_causal, scale=self.scale)
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

    def _in_blocks(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, pattern: Pattern, partition: BlockSparse
    ) -> Tensor:
        """One softmax for the global blocks and one for all others; without dropout, as in the authors' code."""
        tokens, parts = query.shape[2], partition.attention_inputs(query, key, value, mask)
        if self._is_fused():
            ends, inner = (sdpa(*part, scale=self.scale) for part in parts)
            return partition.merge_blocks(ends, inner, tokens)
        scores = [self._scores(part.query, part.key, part.mask) for part in parts]
        weights = [_weights(score, part.mask) for score, part in zip(scores, parts, strict=True)]
        if self.recorder is not None:
            dense = partition.dense(weights[0], weights[1], tokens)
            self.recorder(dense, partition.dense_scores(scores[0], scores[1], tokens), pattern, None, None)
        ends, inner = (weight @ part.value for weight, part in zip(weights, parts, strict=True))
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
    # zero for a query that may attend to no key, as in the fused kernels
    return weights.masked_fill(~bias, 0.0) if bias is not None and bias.dtype == torch.bool else weights


def _repeat_for_images(mask: Tensor | None, groups: int) -> Tensor | None:
    """Repeats a partition's mask, which has the groups of one image, for the groups of all images."""
    return mask if mask is None else mask.repeat(groups // mask.shape[0], 1, 1, 1)


def _forbid(bias: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """Adds a mask (True = may attend) to a bias; a mask alone stays boolean, which fused kernels accept."""
    if mask is None:
        return bias
    if bias is None:
        return mask
    if bias.dtype == torch.bool:
        return bias & mask
    return bias.masked_fill(~mask, _lowest(bias))


def _lowest(tensor: Tensor) -> float:
    # Half of the lowest number: finite, so that a query without any key gets a mean and not NaN.
    return torch.finfo(tensor.dtype).min / 2
