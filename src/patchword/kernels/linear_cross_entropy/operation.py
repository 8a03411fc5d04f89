"""The cross-entropy of a linear layer's logits, without a float32 copy of the logits.

Torch's own operations hold the logits of the whole vocabulary three times: as the matrix product writes them, in
float32, and as their softmax. Here they are held once, in the dtype of the product. If there are too many, they are not
held at all: the backward pass computes them again, in chunks of tokens. Rows of logits are padded to a multiple of 64,
because matrix products write to rows that are not aligned at half the speed (BERT's vocabulary has 30,522 tokens).

The reference is `linear_cross_entropy_reference`. It runs on CPUs and under transforms of torch.func.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.linear_cross_entropy.reference import TokenLosses as TokenLosses
from patchword.kernels.linear_cross_entropy.reference import linear_cross_entropy_reference
from patchword.kernels.linear_cross_entropy.reference import token_losses as token_losses
from patchword.kernels.linear_cross_entropy.rows import row_gradients, row_losses
from patchword.kernels.linear_cross_entropy.tuning import HELD_LOGITS, padded_vocabulary


def linear_cross_entropy(vectors: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor) -> TokenLosses:
    """Computes cross_entropy(vectors @ table.T + bias, targets) for each token, and the token with the highest logit.

    vectors (count, width), table (vocabulary, width), bias (vocabulary,), targets (count,); negative targets: loss 0
    """
    if not vectors.is_cuda or torch._C._are_functorch_transforms_active():
        return linear_cross_entropy_reference(vectors, table, bias, targets)
    return fused_linear_cross_entropy(vectors, table, bias, targets)


def fused_linear_cross_entropy(
    vectors: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, held: int | None = None
) -> TokenLosses:
    """Computes `linear_cross_entropy` without the reference's copies. held: logits in memory at a time"""
    device_type = vectors.device.type
    dtype = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else table.dtype
    chunk = max(1, (held or HELD_LOGITS) // padded_vocabulary(len(table)))
    losses, words, _, _ = _forward(vectors, table, bias, targets, dtype, chunk)
    return TokenLosses(losses, words)


@torch.library.custom_op("patchword::linear_cross_entropy", mutates_args=())
def _forward(
    vectors: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, narrow: torch.dtype, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns losses, likeliest tokens, log-sum-exp, and the logits if one chunk of `rows` tokens holds all.

    narrow: dtype of the matrix product
    """
    narrowed, padded, padded_bias = vectors.to(narrow), _padded(table, narrow), _padded_bias(table, bias, narrow)
    parts, held = [], padded.new_empty(0, len(padded))
    for chunk, chunk_targets in zip(narrowed.split(rows), targets.split(rows), strict=True):
        held = _logits(chunk, padded, padded_bias)
        parts.append(row_losses(held, chunk_targets, len(table)))
    losses, words, logsumexp = (torch.cat(part) for part in zip(*parts, strict=True))
    return losses, words, logsumexp, held if len(parts) == 1 else held[:0].clone()


@_forward.register_fake
def _forward_fake(
    vectors: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, narrow: torch.dtype, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    count = vectors.shape[0]
    losses = vectors.new_empty(count, dtype=torch.float32)
    held = vectors.new_empty(count if count <= rows else 0, padded_vocabulary(table.shape[0]), dtype=narrow)
    return losses, torch.empty_like(targets), torch.empty_like(losses), held


@torch.library.custom_op("patchword::linear_cross_entropy_backward", mutates_args=())
def _backward(
    gradient: Tensor,
    vectors: Tensor,
    table: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    logsumexp: Tensor,
    held: Tensor,
    rows: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of vectors, table and bias. gradient: (count,) of the losses"""
    narrowed, padded = vectors.to(held.dtype), _padded(table, held.dtype)
    padded_bias = _padded_bias(table, bias, held.dtype)
    of_vectors = torch.empty_like(vectors)
    of_table, of_bias = torch.zeros_like(table), table.new_zeros(len(table))
    for start in range(0, len(vectors), rows):
        tokens = slice(start, start + rows)
        chunk = narrowed[tokens]
        logits = held[tokens] if len(held) else _logits(chunk, padded, padded_bias)
        of_logits = row_gradients(logits, logsumexp[tokens], targets[tokens], gradient[tokens], len(table))
        of_vectors[tokens] = of_logits @ padded
        of_table += (of_logits.T @ chunk)[: len(table)]
        of_bias += of_logits.sum(0, dtype=torch.float32)[: len(table)]
    return of_vectors, of_table, of_bias


@_backward.register_fake
def _backward_fake(
    gradient: Tensor,
    vectors: Tensor,
    table: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    logsumexp: Tensor,
    held: Tensor,
    rows: int,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(vectors), torch.empty_like(table), table.new_empty(table.shape[0])


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    vectors, table, bias, targets, _, ctx.rows = inputs
    ctx.set_materialize_grads(False)  # no gradient reaches the logits that are held
    ctx.save_for_backward(vectors, table, bias, targets, *output[2:])


def _differentiate(ctx: Any, gradient: Tensor | None, *others: Tensor | None) -> tuple[Tensor | None, ...]:
    if gradient is None:
        return (None,) * 6
    bias = ctx.saved_tensors[2]
    of_vectors, of_table, of_bias = _backward(gradient, *ctx.saved_tensors, ctx.rows)
    return of_vectors, of_table, None if bias is None else of_bias, None, None, None


_forward.register_autograd(_differentiate, setup_context=_setup_context)


def _padded(table: Tensor, dtype: torch.dtype) -> Tensor:
    """Pads the table with rows of zeros, so that rows of logits are aligned."""
    return F.pad(table.to(dtype), (0, 0, 0, padded_vocabulary(len(table)) - len(table)))


def _padded_bias(table: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if bias is None else F.pad(bias.to(dtype), (0, padded_vocabulary(len(table)) - len(table)))


def _logits(vectors: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
    return vectors @ table.T if bias is None else torch.addmm(bias, vectors, table.T)
