"""Linear layers on narrow tokens with the norm before them (layer_norm_linear), or with the residual sum after them
(linear_residual), for inference.

Where tokens are narrow, as in the first stages of a pyramid, a product is bound by memory. A separate norm reads and
writes all tokens once more, a separate sum reads two maps and writes one. The kernels (triton.py) do either in the same
pass. Products in float32 are left to the reference.
"""

import torch
from torch import Tensor

from patchword.kernels.common.availability import (
    SelfTest,
    TestInputs,
    can_fuse,
    is_hopper,
    is_usable,
    needs_grad,
    short_dtype,
)
from patchword.kernels.common.launch import sm_count
from patchword.kernels.common.register_op import empty_like_first, register_op
from patchword.kernels.norm_linear.reference import layer_norm_linear_reference, linear_residual_reference
from patchword.kernels.norm_linear.tuning import Plan, is_known, launch


def has_layer_norm_linear_kernel(
    tokens: Tensor, scale: Tensor, shift: Tensor, matrix: Tensor, bias: Tensor | None
) -> bool:
    """True on a Hopper GPU with Triton, for 16-bit tokens and supported sizes, if no gradient is needed."""
    if not can_fuse(tokens, matrix, scale, shift, bias):
        return False
    outputs, width = matrix.shape
    fits = tokens.shape[-1] == width and scale.shape == shift.shape == (width,) and is_known(width, outputs)
    return fits and is_hopper(tokens.device.index) and is_usable(tokens, SELF_TEST)


def has_linear_residual_kernel(tokens: Tensor, branch: Tensor, matrix: Tensor, bias: Tensor | None) -> bool:
    """Like has_layer_norm_linear_kernel. A caller that has not computed the branch yet passes the tokens instead."""
    if needs_grad(branch) or not can_fuse(tokens, matrix, bias):
        return False
    outputs, width = matrix.shape
    fits = tokens.shape[:-1] == branch.shape[:-1] and tokens.shape[-1] == outputs and branch.shape[-1] == width
    known = fits and is_known(width, outputs)
    return known and is_hopper(tokens.device.index) and is_usable(tokens, SELF_TEST)


def layer_norm_linear(
    tokens: Tensor, scale: Tensor, shift: Tensor, matrix: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """norm(tokens) @ matrix' + bias: (..., width), (outputs, width) -> (..., outputs), of the product's dtype"""
    return _run_layer_norm_linear(tokens, scale, shift, matrix.to(short_dtype(tokens, matrix)), bias, eps)


def linear_residual(tokens: Tensor, branch: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """tokens + branch @ matrix' + bias: (..., outputs), (..., width), (outputs, width) -> (..., outputs), of the
    tokens' dtype"""
    dtype = short_dtype(tokens, matrix)
    return _run_linear_residual(tokens, branch.to(dtype), matrix.to(dtype), bias)


def _layer_norm_linear(
    tokens: Tensor, scale: Tensor, shift: Tensor, matrix: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    from patchword.kernels.norm_linear.triton import layer_norm_linear as kernel

    tokens, (outputs, width) = tokens.contiguous(), matrix.shape
    output, count = _normed_shape(tokens, scale, shift, matrix), tokens.numel() // width
    plan = launch(width, outputs)
    programs = _programs(plan, count, tokens)
    scale, shift, matrix, bias = scale.contiguous(), shift.contiguous(), matrix.contiguous(), _contiguous(bias)
    given = (tokens, scale, shift, matrix, bias, output, count, eps)
    if programs:
        with torch.cuda.device_of(tokens):  # Triton launches on the current device
            kernel[(programs,)](*given, *_constants(plan, outputs), num_warps=plan.warps, num_stages=plan.stages)
    return output


def _linear_residual(tokens: Tensor, branch: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    from patchword.kernels.norm_linear.triton import linear_residual as kernel

    tokens, branch, (outputs, width) = tokens.contiguous(), branch.contiguous(), matrix.shape
    output, count = empty_like_first(tokens), branch.numel() // width
    plan = launch(width, outputs)
    programs = _programs(plan, count, tokens)
    given = (tokens, branch, matrix.contiguous(), _contiguous(bias), output, count)
    if programs:
        with torch.cuda.device_of(tokens):
            kernel[(programs,)](*given, *_constants(plan, outputs), num_warps=plan.warps, num_stages=plan.stages)
    return output


def _contiguous(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.contiguous()


def _programs(plan: Plan, count: int, tokens: Tensor) -> int:
    return min(-(-count // plan.rows), plan.programs * sm_count(tokens.get_device()))


def _constants(plan: Plan, outputs: int) -> tuple[int, ...]:
    return plan.first, plan.second, outputs, plan.rows, plan.main, plan.rest


def _normed_shape(tokens: Tensor, scale: Tensor, shift: Tensor, matrix: Tensor, *others: object) -> Tensor:
    return tokens.new_empty(*tokens.shape[:-1], matrix.shape[0], dtype=matrix.dtype)


_LAST = "Tensor matrix, Tensor? bias"
_GIVEN = f"Tensor tokens, Tensor scale, Tensor shift, {_LAST}, float eps"
_run_layer_norm_linear = register_op("layer_norm_linear", _GIVEN, _layer_norm_linear, _normed_shape)
_run_linear_residual = register_op(
    "linear_residual", f"Tensor tokens, Tensor branch, {_LAST}", _linear_residual, empty_like_first
)


def matches_reference(device: torch.device) -> bool:
    """True if the kernels pass with chunks of two sizes, and of one."""
    return all(matches_reference_at(width, device) for width in (96, 128))


@torch.no_grad()
def matches_reference_at(width: int, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """True if both kernels agree with their references in float32."""
    wave = TestInputs(device, dtype)
    tokens, branch = wave.tokens(2, 77, width), wave(2, 77, width, size=0.9)
    first, last = wave(3 * width, width, size=width**-0.5), wave(width, width, size=width**-0.5)
    scale, shift, bias, end = 1 + wave(width), wave(width), wave(3 * width), wave(width)
    with torch.autocast(device.type, enabled=False):
        found = layer_norm_linear(tokens, scale, shift, first, bias, 1e-5), linear_residual(tokens, branch, last, end)
        parts = (tokens, scale, shift, first, bias, branch, last, end)
        tokens, scale, shift, first, bias, branch, last, end = (part.float() for part in parts)
        normed = layer_norm_linear_reference(tokens, scale, shift, first, bias, 1e-5)
        expected = normed, linear_residual_reference(tokens, branch, last, end)
    pairs = zip(found, expected, strict=True)
    return all(bool((one.float() - other).norm() < 1e-2 * other.norm()) for one, other in pairs)


SELF_TEST = SelfTest("norm_linear", matches_reference, on=is_hopper)
