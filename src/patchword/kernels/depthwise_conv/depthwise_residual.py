"""x + depthwise_conv(x), a residual of conditional positions as one kernel, without gradients.

The kernel (triton.py) reads each token once for all its neighbours. Where gradients are needed, or on other GPUs,
depthwise_conv runs.
"""

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, TestInputs, can_fuse, is_hopper, is_usable
from patchword.kernels.common.register_op import empty_like_first, register_op
from patchword.kernels.depthwise_conv.reference import depthwise_residual_reference
from patchword.kernels.depthwise_conv.tuning import is_known, launch


def has_depthwise_residual_kernel(tokens: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """True on a Hopper GPU with Triton, for 16-bit tokens of a supported width, if no gradient is needed."""
    if not can_fuse(tokens, weight, bias):
        return False
    width = tokens.shape[-1]
    same_width = weight.shape == (width, 1, 3, 3) and bias.shape == (width,)
    return same_width and is_known(width) and is_hopper(tokens.device.index) and is_usable(tokens, SELF_TEST)


def depthwise_residual(tokens: Tensor, weight: Tensor, bias: Tensor, height: int, map_width: int) -> Tensor:
    """(batch, height * map_width, channels) -> the same shape. weight: (channels, 1, 3, 3), bias: (channels,)"""
    return _run(tokens, weight, bias, height, map_width)


def _launch(tokens: Tensor, weight: Tensor, bias: Tensor, height: int, map_width: int) -> Tensor:
    from patchword.kernels.depthwise_conv.triton import conv_residual as kernel

    tokens, output, width = tokens.contiguous(), empty_like_first(tokens), tokens.shape[-1]
    tiling, programs, warps = launch(len(tokens), height, map_width, width)
    given = tokens, weight.contiguous(), bias.contiguous(), output, len(tokens) * height * map_width
    if programs:
        with torch.cuda.device_of(tokens):  # Triton launches on the current device
            kernel[(programs,)](*given, height, map_width, width, *tiling, num_warps=warps)
    return output


_GIVEN = "Tensor tokens, Tensor weight, Tensor bias, SymInt height, SymInt map_width"
_run = register_op("depthwise_residual", _GIVEN, _launch, empty_like_first)


@torch.no_grad()
def matches_reference(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """True if the kernel agrees with the reference in float32: maps of two strips and of one, lanes of two columns
    and of one, channels in blocks of both sizes."""
    wave = TestInputs(device, dtype)
    for height, map_width, width in ((10, 6, 64), (5, 7, 96)):
        tokens, weight, bias = wave(3, height * map_width, width), wave(width, 1, 3, 3, by=1.3), wave(width, by=1.7)
        with torch.autocast(device.type, enabled=False):
            expected = depthwise_residual_reference(tokens.float(), weight.float(), bias.float(), height, map_width)
        if not bool((_run(tokens, weight, bias, height, map_width) - expected).norm() < 1e-2 * expected.norm()):
            return False
    return True


SELF_TEST = SelfTest("depthwise_residual", matches_reference, on=is_hopper)
