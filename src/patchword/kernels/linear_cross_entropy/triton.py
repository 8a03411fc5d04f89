# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Triton kernels for the cross-entropy of rows of logits and for its gradient; reference.py computes the same.

Import it only where Triton is installed. The kernels read the logits once, in their own dtype, and compute in float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchword.kernels.linear_cross_entropy.tuning import BLOCK, WARPS

_LOWEST = -1e30  # finite, so that the difference of two of them is not NaN


@triton.jit
def _losses_kernel(
    logits, targets, losses, best_tokens, logsumexps, vocabulary, row_length, lowest: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    """Online softmax: each lane keeps its highest logit, that logit's token and its sum of exponentials; then the lanes
    are reduced."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, block)
    highest = tl.full([block], lowest, tl.float32)
    exp_sum = tl.zeros([block], tl.float32)
    best = tl.zeros([block], tl.int32)
    for start in range(0, vocabulary, block):
        token = start + lanes
        logit = tl.load(logits + row * row_length + token, token < vocabulary, other=lowest).to(tl.float32)
        best = tl.where(logit > highest, token, best)
        higher = tl.maximum(highest, logit)
        exp_sum = exp_sum * tl.exp(highest - higher) + tl.where(token < vocabulary, tl.exp(logit - higher), 0.0)
        highest = higher
    top = tl.max(highest, 0)
    logsumexp = top + tl.log(tl.sum(exp_sum * tl.exp(highest - top), 0))
    target = tl.load(targets + row)
    target_logit = tl.load(logits + row * row_length + tl.maximum(target, 0)).to(tl.float32)
    tl.store(losses + row, tl.where(target >= 0, logsumexp - target_logit, 0.0))
    tl.store(best_tokens + row, tl.min(tl.where(highest == top, best, vocabulary), 0).to(tl.int64))
    tl.store(logsumexps + row, logsumexp)


@triton.jit
def _gradients_kernel(
    logits, logsumexps, targets, loss_grads, logit_grads, vocabulary, row_length, block: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    token = tl.program_id(1) * block + tl.arange(0, block)
    valid = token < vocabulary
    logit = tl.load(logits + row * row_length + token, valid, other=0.0).to(tl.float32)
    target, loss_grad = tl.load(targets + row), tl.load(loss_grads + row).to(tl.float32)
    grad = tl.exp(logit - tl.load(logsumexps + row)) - tl.where(token == target, 1.0, 0.0)
    grad = tl.where(valid & (target >= 0), grad * loss_grad, 0.0)
    tl.store(logit_grads + row * row_length + token, grad, token < row_length)


def row_losses(logits: Tensor, targets: Tensor, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    rows, row_length = logits.shape
    losses, logsumexps = (logits.new_empty(rows, dtype=torch.float32) for _ in range(2))
    best_tokens = torch.empty_like(targets)
    if rows:
        outputs = losses, best_tokens, logsumexps
        sizes = vocabulary, row_length
        _losses_kernel[(rows,)](logits, targets, *outputs, *sizes, lowest=_LOWEST, block=BLOCK, num_warps=WARPS)
    return losses, best_tokens, logsumexps


def row_gradients(logits: Tensor, logsumexp: Tensor, targets: Tensor, gradient: Tensor, vocabulary: int) -> Tensor:
    found, (rows, row_length) = torch.empty_like(logits), logits.shape
    if rows:
        grid = rows, triton.cdiv(row_length, BLOCK)
        inputs = logits, logsumexp, targets, gradient.contiguous()
        _gradients_kernel[grid](*inputs, found, vocabulary, row_length, block=BLOCK, num_warps=WARPS)
    return found
