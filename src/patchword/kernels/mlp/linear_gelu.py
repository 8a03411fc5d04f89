"""gelu(up(x)) as one kernel, for inference: the first half of feed-forwards that are too wide for fused_mlp.

A GELU of its own reads and writes all hidden values once more, which takes as long as a short matrix product. For wider
matrices the product of cuBLAS is so much faster that a separate GELU costs less. The kernel is in linear_gelu_triton.
"""

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, TestInputs, can_fuse, is_hopper, is_usable, short_dtype
from patchword.kernels.common.register_op import register_op
from patchword.kernels.mlp.reference import linear_gelu_reference
from patchword.kernels.mlp.tuning import LINEAR_GELU


def has_linear_gelu_kernel(tokens: Tensor, up: Tensor, bias: Tensor) -> bool:
    """True on a Hopper GPU with Triton, for 16-bit tokens and supported sizes, if no gradient is needed."""
    if not can_fuse(tokens, up, bias):
        return False
    hidden, width = up.shape
    if tokens.shape[-1] != width or not is_hopper(tokens.device.index):
        return False
    fits = (
        LINEAR_GELU.min_width <= width <= LINEAR_GELU.max_width
        and width % LINEAR_GELU.depth == 0
        and hidden % LINEAR_GELU.columns == 0
    )
    return fits and is_usable(tokens, SELF_TEST)


def linear_gelu(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    """(..., width), (hidden, width), (hidden,) -> (..., hidden); form: one of reference.FORMS"""
    dtype = short_dtype(tokens, up)
    return _run(tokens.to(dtype), up.to(dtype), bias, form)


def _launch(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    from patchword.kernels.mlp.linear_gelu_triton import linear_gelu_kernel

    tokens, (hidden, width) = tokens.contiguous(), up.shape
    output, count = _shape(tokens, up), tokens.numel() // width
    programs = -(-count // LINEAR_GELU.rows) * (hidden // LINEAR_GELU.columns)
    given = (
        tokens,
        up.contiguous(),
        bias.contiguous(),
        output,
        count,
        width,
        hidden,
        LINEAR_GELU.rows,
        LINEAR_GELU.columns,
        LINEAR_GELU.depth,
        form,
    )
    if programs:
        with torch.cuda.device_of(tokens):  # Triton launches on the current device
            linear_gelu_kernel[(programs,)](*given, num_warps=LINEAR_GELU.warps, num_stages=LINEAR_GELU.stages)
    return output


def _shape(tokens: Tensor, up: Tensor, *others: object) -> Tensor:
    return tokens.new_empty(*tokens.shape[:-1], up.shape[0])


_run = register_op("linear_gelu", "Tensor tokens, Tensor up, Tensor bias, str form", _launch, _shape)


@torch.no_grad()
def matches_reference(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """True if the kernel agrees with the reference in float32."""
    wave = TestInputs(device, dtype)
    tokens, up, bias = wave(154, 320), wave(256, 320, size=0.1), wave(256)
    with torch.autocast(device.type, enabled=False):
        target = linear_gelu(tokens, up, bias, "gelu").float()
        expected = linear_gelu_reference(tokens.float(), up.float(), bias.float(), "gelu")
    return bool((target - expected).norm() < 1e-2 * expected.norm())


SELF_TEST = SelfTest("linear_gelu", matches_reference, on=is_hopper)
