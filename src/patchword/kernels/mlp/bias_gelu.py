"""gelu(x + bias) and its gradients, differentiable, for compiled models in 16 bits.

There the compiler's own code is bound by computation, not by memory. The two Triton kernels (bias_gelu_triton) compute
less, and the backward kernel also sums the gradient of the bias, which otherwise is a separate reduction over all rows.
"""

from typing import Any

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, is_usable, short_dtype
from patchword.kernels.common.launch import sm_count
from patchword.kernels.common.register_op import empty_like_first, register_op
from patchword.kernels.mlp import tuning
from patchword.kernels.mlp.reference import bias_gelu_reference


def has_bias_gelu_kernel(tokens: Tensor, up: Tensor) -> bool:
    """tokens: the input of the matrix `up`, (hidden, width). Only in compiled models: eager calls cost more."""
    if not tokens.is_cuda or not torch.compiler.is_compiling() or len(up) % (tuning.BIAS_GELU_COLUMNS // 2):
        return False
    return short_dtype(tokens, up) is not None and is_usable(tokens, SELF_TEST)


def bias_gelu(inputs: Tensor, bias: Tensor) -> Tensor:
    """(..., hidden), (hidden,) -> (..., hidden)"""
    return _run(inputs, bias)


def _launch_forward(inputs: Tensor, bias: Tensor) -> Tensor:
    from patchword.kernels.mlp.bias_gelu_triton import forward_kernel

    inputs, bias, hidden = inputs.contiguous(), bias.contiguous(), len(bias)
    output, count, columns = torch.empty_like(inputs), inputs.numel() // hidden, _columns(hidden)
    if count:
        with torch.cuda.device_of(inputs):  # Triton launches on the current device
            grid = (-(-count // tuning.BIAS_GELU_ROWS), hidden // columns)
            forward_kernel[grid](
                inputs, bias, output, count, hidden, tuning.BIAS_GELU_ROWS, columns, num_warps=tuning.BIAS_GELU_WARPS
            )
    return output


def _launch_backward(grad_output: Tensor, inputs: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the gradients of `inputs` and `bias`."""
    from patchword.kernels.mlp.bias_gelu_triton import backward_kernel

    grad_output, inputs, bias, hidden = grad_output.contiguous(), inputs.contiguous(), bias.contiguous(), len(bias)
    found, count, columns = torch.empty_like(inputs), inputs.numel() // hidden, _columns(hidden)
    spans = max(
        1,
        min(
            tuning.BIAS_GELU_PROGRAMS * sm_count(inputs.get_device()) * columns // hidden,
            -(-count // tuning.BIAS_GELU_ROWS_BACKWARD),
        ),
    )
    span = -(-count // spans)
    spans = -(-count // span) if count else 0
    parts = torch.empty(spans, hidden, dtype=torch.float32, device=inputs.device)
    if count:
        given = (grad_output, inputs, bias, found, parts, count, span, hidden, tuning.BIAS_GELU_ROWS_BACKWARD, columns)
        with torch.cuda.device_of(inputs):
            backward_kernel[(spans, hidden // columns)](*given, num_warps=tuning.BIAS_GELU_WARPS)
    return found, parts.sum(0).to(bias.dtype)


def _columns(hidden: int) -> int:
    return tuning.BIAS_GELU_COLUMNS if hidden % tuning.BIAS_GELU_COLUMNS == 0 else tuning.BIAS_GELU_COLUMNS // 2


def _backward_shapes(grad_output: Tensor, inputs: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return empty_like_first(inputs), torch.empty_like(bias)


def _save_for_backward(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
    return _run_backward(grad_output, *ctx.saved_tensors)


_GIVEN = "Tensor inputs, Tensor bias"
_run = register_op("bias_gelu", _GIVEN, _launch_forward, empty_like_first)
_run_backward = register_op(
    "bias_gelu_back", f"Tensor grad_output, {_GIVEN}", _launch_backward, _backward_shapes, "(Tensor, Tensor)"
)
torch.library.register_autograd("patchword::bias_gelu", _gradients, setup_context=_save_for_backward)


def matches_reference(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """True if both kernels agree with the reference in float64."""
    inputs = torch.linspace(-6, 6, 37 * 384, device=device).view(37, 384).T.contiguous().view(37, 384).to(dtype)
    bias, slopes = torch.linspace(-1, 1, 384, device=device), torch.linspace(0, 9, 37 * 384, device=device).sin()
    slopes, exact = slopes.view(37, 384).to(dtype), [part.double().requires_grad_() for part in (inputs, bias)]
    expected = bias_gelu_reference(exact[0], exact[1])
    wanted = [expected, *torch.autograd.grad(expected, exact, slopes.double())]
    found = [bias_gelu(inputs, bias), *_launch_backward(slopes, inputs, bias)]
    pairs = zip(found, wanted, strict=True)
    return all(bool((one.double() - other).norm() < 5e-3 * other.norm()) for one, other in pairs)


SELF_TEST = SelfTest("bias_gelu", matches_reference)
