"""Which word stands there, learned without a table of float32 scores: the last product and its loss in one.

The plain way keeps the scores of all words three times: as they leave the product, in float32, and as their softmax.
Here they are kept once, in the precision of the product, or not at all where they are many: then they are computed
again, some rows at a time, when the gradient is asked for. Rows of scores are as long as a multiple of 64, since
products write into rows that begin anywhere at half their speed (BERT's vocabulary is 30,522).

The plain twin is `plain_losses`, used on CPUs and wherever torch must see every step.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.linear_cross_entropy.rows import loss_rows, slope_rows

_HELD = 2**28  # scores that are held at a time
_ALIGNED = 64


class TokenLosses(NamedTuple):
    """losses: (count,) float32, 0 where the target is negative. words: (count,) the likeliest"""

    losses: Tensor
    words: Tensor


def linear_cross_entropy(vectors: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor) -> TokenLosses:
    """vectors (count, width), table (vocabulary, width), bias (vocabulary,), targets (count,)"""
    if not vectors.is_cuda or torch._C._are_functorch_transforms_active():
        return linear_cross_entropy_reference(vectors, table, bias, targets)
    return quick_losses(vectors, table, bias, targets)


def linear_cross_entropy_reference(vectors: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor) -> TokenLosses:
    return token_losses(F.linear(vectors, table, bias), targets)


def token_losses(scores: Tensor, targets: Tensor) -> TokenLosses:
    """(count, vocabulary), (count,) -> how far off"""
    return TokenLosses(F.cross_entropy(scores.float(), targets, reduction="none"), scores.detach().argmax(-1))


def quick_losses(
    vectors: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, held: int | None = None
) -> TokenLosses:
    """held: scores that are held at a time"""
    kind = vectors.device.type
    narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else table.dtype
    rows = max(1, (held or _HELD) // _wide(len(table)))
    losses, words, _, _ = _losses(vectors, table, bias, targets, narrow, rows)
    return TokenLosses(losses, words)


@torch.library.custom_op("patchword::linear_cross_entropy", mutates_args=())
def _losses(
    vectors: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, narrow: torch.dtype, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """losses, likeliest words, log of the sum of exponents, and the scores if one piece of `rows` holds all"""
    narrowed, aligned, offset = vectors.to(narrow), _aligned(table, narrow), _offset(table, bias, narrow)
    parts, kept = [], aligned.new_empty(0, len(aligned))
    for piece, wanted in zip(narrowed.split(rows), targets.split(rows), strict=True):
        kept = _scores(piece, aligned, offset)
        parts.append(loss_rows(kept, wanted, len(table)))
    losses, words, totals = (torch.cat(part) for part in zip(*parts, strict=True))
    return losses, words, totals, kept if len(parts) == 1 else kept[:0].clone()


@_losses.register_fake
def _losses_of_shapes(
    vectors: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, narrow: torch.dtype, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    count = vectors.shape[0]
    losses = vectors.new_empty(count, dtype=torch.float32)
    kept = vectors.new_empty(count if count <= rows else 0, _wide(table.shape[0]), dtype=narrow)
    return losses, torch.empty_like(targets), torch.empty_like(losses), kept


@torch.library.custom_op("patchword::linear_cross_entropy_backward", mutates_args=())
def _slopes(
    slopes: Tensor,
    vectors: Tensor,
    table: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    totals: Tensor,
    kept: Tensor,
    rows: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """slopes: (count,) of the losses. The gradients of vectors, table and bias"""
    narrowed, aligned = vectors.to(kept.dtype), _aligned(table, kept.dtype)
    offset = _offset(table, bias, kept.dtype)
    of_vectors = torch.empty_like(vectors)
    of_table, of_bias = torch.zeros_like(table), table.new_zeros(len(table))
    for start in range(0, len(vectors), rows):
        there = slice(start, start + rows)
        piece = narrowed[there]
        scores = kept[there] if len(kept) else _scores(piece, aligned, offset)
        slope = slope_rows(scores, totals[there], targets[there], slopes[there], len(table))
        of_vectors[there] = slope @ aligned
        of_table += (slope.T @ piece)[: len(table)]
        of_bias += slope.sum(0, dtype=torch.float32)[: len(table)]
    return of_vectors, of_table, of_bias


@_slopes.register_fake
def _slopes_of_shapes(
    slopes: Tensor,
    vectors: Tensor,
    table: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    totals: Tensor,
    kept: Tensor,
    rows: int,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(vectors), torch.empty_like(table), table.new_empty(table.shape[0])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    vectors, table, bias, targets, _, ctx.rows = inputs
    ctx.set_materialize_grads(False)  # nothing is learned through the scores that were kept
    ctx.save_for_backward(vectors, table, bias, targets, *output[2:])


def _back(ctx: Any, slopes: Tensor | None, *others: Tensor | None) -> tuple[Tensor | None, ...]:
    if slopes is None:
        return (None,) * 6
    bias = ctx.saved_tensors[2]
    of_vectors, of_table, of_bias = _slopes(slopes, *ctx.saved_tensors, ctx.rows)
    return of_vectors, of_table, None if bias is None else of_bias, None, None, None


_losses.register_autograd(_back, setup_context=_keep)


def _wide(words: int) -> int:
    return -(-words // _ALIGNED) * _ALIGNED


def _aligned(table: Tensor, narrow: torch.dtype) -> Tensor:
    """with rows of zeros up to a whole multiple"""
    return F.pad(table.to(narrow), (0, 0, 0, _wide(len(table)) - len(table)))


def _offset(table: Tensor, bias: Tensor | None, narrow: torch.dtype) -> Tensor | None:
    return None if bias is None else F.pad(bias.to(narrow), (0, _wide(len(table)) - len(table)))


def _scores(piece: Tensor, aligned: Tensor, offset: Tensor | None) -> Tensor:
    return piece @ aligned.T if offset is None else torch.addmm(offset, piece, aligned.T)
