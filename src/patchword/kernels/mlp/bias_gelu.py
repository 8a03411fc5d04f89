"""gelu(x + bias) and its gradients, differentiable, for compiled models in 16 bits.

There the compiler's own code computes longer than it reads and writes. Two Triton kernels (bias_gelu_triton): the
backward pass sums the gradient of the bias in the same pass, which else is a reduction over all rows of its own.
"""

from typing import Any

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, is_usable, short_dtype
from patchword.kernels.common.launch import sm_count
from patchword.kernels.common.register_op import register_op
from patchword.kernels.mlp.reference import bias_gelu_reference

_ROWS, _ROWS_BACK, _WARPS = 32, 8, 4  # per program and step
_WIDEST = 256  # columns per program
_PROGRAMS = 7  # per multiprocessor: as many as its registers hold in the backward pass


def has_bias_gelu_kernel(tokens: Tensor, up: Tensor) -> bool:
    """tokens: the input of the matrix `up`, (hidden, width). Only in compiled models: eager calls cost more."""
    if not tokens.is_cuda or not torch.compiler.is_compiling() or len(up) % (_WIDEST // 2):
        return False
    return short_dtype(tokens, up) is not None and is_usable(tokens, SELF_TEST)


def bias_gelu(between: Tensor, bias: Tensor) -> Tensor:
    """(..., hidden), (hidden,) -> (..., hidden)"""
    return _run(between, bias)


def _forwards(between: Tensor, bias: Tensor) -> Tensor:
    from patchword.kernels.mlp.bias_gelu_triton import forwards

    between, bias, hidden = between.contiguous(), bias.contiguous(), len(bias)
    answer, count, columns = torch.empty_like(between), between.numel() // hidden, _columns(hidden)
    if count:
        with torch.cuda.device_of(between):  # Triton launches on the current device
            grid = (-(-count // _ROWS), hidden // columns)
            forwards[grid](between, bias, answer, count, hidden, _ROWS, columns, num_warps=_WARPS)
    return answer


def _backwards(gradient: Tensor, between: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """the gradients of `between` and `bias`"""
    from patchword.kernels.mlp.bias_gelu_triton import backwards

    gradient, between, bias, hidden = gradient.contiguous(), between.contiguous(), bias.contiguous(), len(bias)
    found, count, columns = torch.empty_like(between), between.numel() // hidden, _columns(hidden)
    spans = max(1, min(_PROGRAMS * sm_count(between.get_device()) * columns // hidden, -(-count // _ROWS_BACK)))
    span = -(-count // spans)
    spans = -(-count // span) if count else 0
    parts = torch.empty(spans, hidden, dtype=torch.float32, device=between.device)
    if count:
        given = (gradient, between, bias, found, parts, count, span, hidden, _ROWS_BACK, columns)
        with torch.cuda.device_of(between):
            backwards[(spans, hidden // columns)](*given, num_warps=_WARPS)
    return found, parts.sum(0).to(bias.dtype)


def _columns(hidden: int) -> int:
    return _WIDEST if hidden % _WIDEST == 0 else _WIDEST // 2


def _shapes_back(gradient: Tensor, between: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return _shape(between), torch.empty_like(bias)


def _shape(between: Tensor, *others: object) -> Tensor:
    return torch.empty_like(between, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    return _run_back(gradient, *ctx.saved_tensors)


_GIVEN = "Tensor between, Tensor bias"
_run = register_op("bias_gelu", _GIVEN, _forwards, _shape)
_run_back = register_op("bias_gelu_back", f"Tensor gradient, {_GIVEN}", _backwards, _shapes_back, "(Tensor, Tensor)")
torch.library.register_autograd("patchword::bias_gelu", _gradients, setup_context=_keep)


def matches_reference(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """True if both kernels agree with the reference in float64."""
    between = torch.linspace(-6, 6, 37 * 384, device=device).view(37, 384).T.contiguous().view(37, 384).to(dtype)
    bias, slopes = torch.linspace(-1, 1, 384, device=device), torch.linspace(0, 9, 37 * 384, device=device).sin()
    slopes, exact = slopes.view(37, 384).to(dtype), [part.double().requires_grad_() for part in (between, bias)]
    expected = bias_gelu_reference(exact[0], exact[1])
    wanted = [expected, *torch.autograd.grad(expected, exact, slopes.double())]
    found = [bias_gelu(between, bias), *_backwards(slopes, between, bias)]
    pairs = zip(found, wanted, strict=True)
    return all(bool((one.double() - other).norm() < 5e-3 * other.norm()) for one, other in pairs)


SELF_TEST = SelfTest("bias_gelu", matches_reference)
