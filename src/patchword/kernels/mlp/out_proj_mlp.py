"""The last product of a branch, its sum with the tokens, and the feed-forward behind it, without gradients: all that a
block does with tokens after attention.

Alone, the product reads two maps of tokens and writes one, which the feed-forward reads. A kernel for GPUs
(feed_forward_groups) holds it on the chip. There is none but that one: elsewhere both run as they are. The twin is
plain_joined.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.common.availability import (
    SelfTest,
    TestInputs,
    has_warp_specialization,
    is_on_cuda,
    is_usable,
    needs_grad,
    short_dtype,
)
from patchword.kernels.common.register_op import register_op
from patchword.kernels.mlp.fused_mlp import Weights, are_many, fused_mlp_reference, warp_specialized
from patchword.kernels.mlp.tuning import is_warp_specialized


class OutProjection(NamedTuple):
    """branch: (..., width). matrix: (width, width), with its bias"""

    branch: Tensor
    matrix: Tensor
    bias: Tensor


def has_out_proj_mlp_kernel(tokens: Tensor, matrix: Tensor, bias: Tensor, weights: Weights) -> bool:
    """On a Hopper GPU with a version of Triton that was measured, for tokens of 16 bits and sizes that fit, where no
    gradient is wanted. It is asked before there is a branch."""
    if not is_on_cuda(tokens) or needs_grad(tokens, matrix, bias, *weights):
        return False
    if tokens.dtype != short_dtype(tokens, matrix, bias, *weights):
        return False
    hidden, width = weights.up.shape
    matches_reference = tokens.shape[-1:] == weights.scale.shape == weights.shift.shape == bias.shape == (width,)
    fits = matches_reference and weights.down.shape == (width, hidden) and matrix.shape == (width, width)
    there = (
        is_warp_specialized(width, hidden)
        and has_warp_specialization(tokens.device.index)
        and is_usable(tokens, SELF_TEST)
    )
    return fits and there and are_many(tokens, width)


def out_proj_mlp(tokens: Tensor, before: OutProjection, weights: Weights, eps: float, form: str) -> Tensor:
    """x + feed_forward(norm(x)) of x = tokens + branch @ matrix' + bias; form: one of feed_forward.FORMS"""
    kind, (branch, matrix, bias) = tokens.dtype, before
    scale, shift, up, up_bias, down, down_bias = weights
    given = tokens, branch.to(kind), matrix.to(kind), bias, scale, shift, up.to(kind), up_bias, down.to(kind), down_bias
    return _run(*given, eps, form)


def out_proj_mlp_reference(tokens: Tensor, before: OutProjection, weights: Weights, eps: float, form: str) -> Tensor:
    branch, matrix, bias = before
    return fused_mlp_reference(tokens + F.linear(branch, matrix, bias), weights, eps, form)


def _one_step(
    tokens: Tensor, branch: Tensor, matrix: Tensor, bias: Tensor, scale: Tensor, shift: Tensor, up: Tensor,
    up_bias: Tensor, down: Tensor, down_bias: Tensor, eps: float, form: str,
) -> Tensor:  # fmt: skip
    if not tokens.numel():
        return _shape(tokens)
    tokens, branch, matrix, bias = (part.contiguous() for part in (tokens, branch, matrix, bias))
    weights = Weights(*(part.contiguous() for part in (scale, shift, up, up_bias, down, down_bias)))
    return warp_specialized(tokens, weights, eps, form, (branch, matrix, bias))


def _shape(tokens: Tensor, *others: object) -> Tensor:
    return torch.empty_like(tokens, memory_format=torch.contiguous_format)


_TENSORS = ", ".join(f"Tensor {name}" for name in ("tokens", *OutProjection._fields, *Weights._fields))
_run = register_op("out_proj_mlp", f"{_TENSORS}, float eps, str form", _one_step, _shape)


@torch.no_grad()
def matches_reference(device: torch.device) -> bool:
    """Both numbers of groups, with one tile for each program and with more."""
    return all(matches_reference_at(width, rows, device) for width, rows in ((128, 30000), (256, 77)))


def matches_reference_at(width: int, rows: int, device: torch.device, kind: torch.dtype = torch.bfloat16) -> bool:
    """Whether the kernel answers as the plain way does in float32."""
    wave, hidden = TestInputs(device, kind), 4 * width
    up, down = wave(hidden, width, size=width**-0.5), wave(width, hidden, size=hidden**-0.5)
    weights = Weights(1 + wave(width), wave(width), up, wave(hidden), down, wave(width))
    before = OutProjection(
        wave(2, rows, width, size=0.9), wave(width, width, size=width**-0.5, by=1.3), wave(width, by=1.7)
    )
    tokens = wave.tokens(2, rows, width)
    with torch.autocast(device.type, enabled=False):
        found = out_proj_mlp(tokens, before, weights, 1e-5, "gelu").float()
        exact = OutProjection(*(part.float() for part in before)), Weights(*(part.float() for part in weights))
        expected = out_proj_mlp_reference(tokens.float(), *exact, 1e-5, "gelu")
    return bool((found - expected).norm() < 1e-2 * expected.norm())


SELF_TEST = SelfTest("feed-forwards behind a product", matches_reference, on=has_warp_specialization)
