"""The output projection of attention, its residual sum, and the MLP after it, for inference: all that a block computes
after attention.

By itself the projection reads two maps of tokens and writes one, which the feed-forward reads. The warp-specialised
kernel (fused_mlp_warp_specialized) holds it on the chip. There is no other kernel: elsewhere both run one by one.
"""

import torch
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
from patchword.kernels.common.register_op import empty_like_first, register_op
from patchword.kernels.mlp.fused_mlp import are_many, warp_specialized
from patchword.kernels.mlp.reference import OutProjection, Weights, out_proj_mlp_reference
from patchword.kernels.mlp.tuning import is_warp_specialized


def has_out_proj_mlp_kernel(tokens: Tensor, matrix: Tensor, bias: Tensor, weights: Weights) -> bool:
    """True on a Hopper GPU with a supported version of Triton, for 16-bit tokens and supported sizes, if no gradient is
    needed. The caller must check the branch, which is not computed yet."""
    if not is_on_cuda(tokens) or needs_grad(tokens, matrix, bias, *weights):
        return False
    if tokens.dtype != short_dtype(tokens, matrix, bias, *weights):
        return False
    hidden, width = weights.up.shape
    same_width = tokens.shape[-1:] == weights.scale.shape == weights.shift.shape == bias.shape == (width,)
    fits = same_width and weights.down.shape == (width, hidden) and matrix.shape == (width, width)
    usable = (
        is_warp_specialized(width, hidden)
        and has_warp_specialization(tokens.device.index)
        and is_usable(tokens, SELF_TEST)
    )
    return fits and usable and are_many(tokens, width)


def out_proj_mlp(tokens: Tensor, before: OutProjection, weights: Weights, eps: float, form: str) -> Tensor:
    """x + feed_forward(norm(x)) of x = tokens + branch @ matrix' + bias; form: one of reference.FORMS"""
    dtype, (branch, matrix, bias) = tokens.dtype, before
    scale, shift, up, up_bias, down, down_bias = weights
    given = (
        tokens,
        branch.to(dtype),
        matrix.to(dtype),
        bias,
        scale,
        shift,
        up.to(dtype),
        up_bias,
        down.to(dtype),
        down_bias,
    )
    return _run(*given, eps, form)


def _launch(
    tokens: Tensor, branch: Tensor, matrix: Tensor, bias: Tensor, scale: Tensor, shift: Tensor, up: Tensor,
    up_bias: Tensor, down: Tensor, down_bias: Tensor, eps: float, form: str,
) -> Tensor:  # fmt: skip
    if not tokens.numel():
        return empty_like_first(tokens)
    tokens, branch, matrix, bias = (part.contiguous() for part in (tokens, branch, matrix, bias))
    weights = Weights(*(part.contiguous() for part in (scale, shift, up, up_bias, down, down_bias)))
    return warp_specialized(tokens, weights, eps, form, (branch, matrix, bias))


_TENSORS = ", ".join(f"Tensor {name}" for name in ("tokens", *OutProjection._fields, *Weights._fields))
_run = register_op("out_proj_mlp", f"{_TENSORS}, float eps, str form", _launch, empty_like_first)


@torch.no_grad()
def matches_reference(device: torch.device) -> bool:
    """True if both numbers of consumer groups pass, with one tile per program and with more."""
    return all(matches_reference_at(width, rows, device) for width, rows in ((128, 30000), (256, 77)))


def matches_reference_at(width: int, rows: int, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """True if the kernel agrees with the reference in float32."""
    wave, hidden = TestInputs(device, dtype), 4 * width
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


SELF_TEST = SelfTest("out_proj_mlp", matches_reference, on=has_warp_specialization)
