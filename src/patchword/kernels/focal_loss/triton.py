# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Triton kernels for the sigmoid focal loss and its gradient; reference.py computes the same.

They read each logit once, in its own dtype, and compute in float32. Import it only where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit
def _log1p(x):
    """Return log(1 + x) for x from 0 to 1, by the series of 2 atanh(x / (2 + x)): exact in float32 also near 0."""
    s = x / (2.0 + x)
    square = s * s
    series = 1.0 / 13.0 + square * (1.0 / 15.0)
    series = 1.0 / 9.0 + square * (1.0 / 11.0 + square * series)
    series = 1.0 / 5.0 + square * (1.0 / 7.0 + square * series)
    return 2.0 * s * (1.0 + square * (1.0 / 3.0 + square * series))


@triton.jit
def _terms(logits, labels, count, gamma, alpha, classes: tl.constexpr, gamma_is_two: tl.constexpr, block: tl.constexpr):
    """Return the place of each logit, whether there is one, and of its binary target: the sign of the logit that raises
    its probability p, p, 1 - p, -log(p), and the weight a (1 - p)^gamma."""
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    valid = place < count
    logit = tl.load(logits + place, valid, other=0.0).to(tl.float32)
    positive = tl.load(labels + place // classes, valid, other=-1) == place % classes
    sign = tl.where(positive, 1.0, -1.0)
    right = sign * logit
    small = tl.exp(-tl.abs(right))
    larger, smaller, rest = 1.0 / (1.0 + small), small / (1.0 + small), _log1p(small)
    p, q = tl.where(right >= 0.0, larger, smaller), tl.where(right >= 0.0, smaller, larger)
    log_p, log_q = tl.minimum(right, 0.0) - rest, tl.minimum(-right, 0.0) - rest
    focus = q * q if gamma_is_two else tl.exp(gamma * log_q)
    return place, valid, sign, p, q, -log_p, tl.where(positive, alpha, 1.0 - alpha) * focus


@triton.jit
def losses(
    logits, labels, output, count, gamma, alpha, classes: tl.constexpr, gamma_is_two: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    """output: a (1 - p)^gamma (-log(p))"""
    place, valid, _, _, _, surprise, weight = _terms(logits, labels, count, gamma, alpha, classes, gamma_is_two, block)
    tl.store(output + place, (weight * surprise).to(output.dtype.element_ty), valid)


@triton.jit
def gradients(
    logits, labels, slopes, output, count, gamma, alpha, classes: tl.constexpr, gamma_is_two: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """output: slope times the derivative of the loss, -sign a (1 - p)^gamma (1 - p - gamma p log(p))"""
    place, valid, sign, p, q, surprise, weight = _terms(
        logits, labels, count, gamma, alpha, classes, gamma_is_two, block
    )
    slope = tl.load(slopes + place, valid, other=0.0).to(tl.float32)
    found = -slope * sign * weight * (q + gamma * p * surprise)
    tl.store(output + place, found.to(output.dtype.element_ty), valid)
