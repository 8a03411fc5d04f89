"""gelu(up(x)) as one kernel, for inference: the first half of feed-forwards that are too wide for fused_mlp.

A GELU of its own reads and writes all hidden values once more, which takes as long as a short matrix product. For wider
matrices the product of cuBLAS is so much faster that a separate GELU costs less; except for 512 channels and many
tokens, for which a warp-specialised kernel is fastest. The kernels are in linear_gelu_triton and
linear_gelu_warp_specialized.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from patchword.kernels.common.availability import (
    SelfTest,
    TestInputs,
    has_warp_specialization,
    is_hopper,
    is_on_cuda,
    is_usable,
    needs_grad,
    short_dtype,
)
from patchword.kernels.common.launch import fills_gpu, sm_count
from patchword.kernels.common.register_op import register_op
from patchword.kernels.mlp.reference import linear_gelu_reference
from patchword.kernels.mlp.tuning import LINEAR_GELU


def has_linear_gelu_kernel(tokens: Tensor, up: Tensor, bias: Tensor) -> bool:
    """True on a Hopper GPU with Triton, for 16-bit tokens and supported sizes, if no gradient is needed."""
    if not is_on_cuda(tokens) or needs_grad(tokens, up, bias) or short_dtype(tokens, up, bias) is None:
        return False
    hidden, width = up.shape
    if tokens.shape[-1] != width or not is_hopper(tokens.device.index):
        return False
    if width == LINEAR_GELU.specialized_width:
        fits = hidden % LINEAR_GELU.columns == 0 and has_warp_specialization(tokens.device.index)
        usable = fits and is_usable(tokens, WARP_SPECIALIZED_TEST)
        count = tokens.numel() // width
        return usable and fills_gpu(count, LINEAR_GELU.rows, tokens.device.index)  # cuBLAS is faster for fewer tokens
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
    if width == LINEAR_GELU.specialized_width:
        return warp_specialized(tokens, up.contiguous(), bias.contiguous(), form)
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


def warp_specialized(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    """All are contiguous, of one dtype, and not empty."""
    from patchword.kernels.common.warp_specialized import REGISTERS, described
    from patchword.kernels.common.warp_specialized import ROWS as GROUP_ROWS
    from patchword.kernels.mlp.linear_gelu_warp_specialized import DEEP, HALF, SIDE, warp_specialized_kernel

    (hidden, width), output = up.shape, _shape(tokens, up)
    count, rows, deep, side = tokens.numel() // width, GROUP_ROWS.value, DEEP.value, SIDE.value
    programs = min(-(-count // (2 * rows)), sm_count(tokens.get_device()))
    sources = described(tokens.view(count, width), rows, deep), described(up, side, deep)
    target = described(output.view(count, hidden), rows, HALF.value)
    choices = hidden // side, width // deep, form, LINEAR_GELU.slots
    with torch.cuda.device_of(tokens):
        warp_specialized_kernel[(programs,)](*sources, bias, target, count, *choices, num_warps=4, maxnreg=REGISTERS[2])
    return output


def _shape(tokens: Tensor, up: Tensor, *others: object) -> Tensor:
    return tokens.new_empty(*tokens.shape[:-1], up.shape[0])


_run = register_op("linear_gelu", "Tensor tokens, Tensor up, Tensor bias, str form", _launch, _shape)


def matches_reference(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    return matches_reference_at(320, 154, device, dtype, linear_gelu)


def warp_specialized_matches_reference(device: torch.device) -> bool:
    """True if the kernel agrees with the reference, with several tiles per program."""
    return matches_reference_at(LINEAR_GELU.specialized_width, 40000, device, torch.bfloat16, warp_specialized)


@torch.no_grad()
def matches_reference_at(
    width: int, rows: int, device: torch.device, dtype: torch.dtype, run: Callable[..., Tensor]
) -> bool:
    """True if the kernel agrees with the reference in float32."""
    wave = TestInputs(device, dtype)
    tokens, up, bias = wave(rows, width), wave(256, width, size=0.1), wave(256)
    with torch.autocast(device.type, enabled=False):
        target = run(tokens, up, bias, "gelu").float()
        expected = linear_gelu_reference(tokens.float(), up.float(), bias.float(), "gelu")
    return bool((target - expected).norm() < 1e-2 * expected.norm())


SELF_TEST = SelfTest("linear_gelu", matches_reference, on=is_hopper)
WARP_SPECIALIZED_TEST = SelfTest(
    "linear_gelu, warp-specialised", warp_specialized_matches_reference, on=has_warp_specialization
)
