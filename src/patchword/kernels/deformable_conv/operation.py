"""Deformable 3x3 convolution (Dai et al., 2017): columns that a kernel gathers, then one matrix product."""

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, TestInputs, is_usable, needs_grad
from patchword.kernels.deformable_conv.reference import columns_reference
from patchword.kernels.deformable_conv.torch_op import columns_kernel

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_ADDRESSABLE = 2**31  # cells of a map: their numbers have 32 bits


def has_columns_kernel(features: Tensor, offsets: Tensor) -> bool:
    """On a GPU, for 16 or 32 bits.

    The gradient adds with atomic operations, in an order that differs from run to run: where torch is asked for
    deterministic algorithms, the reference computes it.
    """
    if not features.is_cuda or features.dtype not in _DTYPES or offsets.dtype not in _DTYPES:
        return False
    if features.shape[2] * features.shape[3] >= _ADDRESSABLE:
        return False
    if torch.are_deterministic_algorithms_enabled() and needs_grad(features, offsets):
        return False
    return is_usable(features, SELF_TEST)


def deformable_conv(features: Tensor, offsets: Tensor, weight: Tensor) -> Tensor:
    """Return a 3x3 convolution of stride 1 and padding 1 whose taps read the map at offsets of their own.

    features: (batch, channels, height, width). weight: (outputs, channels, 3, 3).
    offsets: (batch, 18, height, width), in cells: y and x of the first tap, then of the next one, row by row.
    Result: (batch, outputs, height, width). Outside the map, taps read zeros, also in maps smaller than the kernel.
    """
    run = fused_columns if has_columns_kernel(features, offsets) else columns_reference
    columns = run(features, offsets)
    found = F.linear(columns.flatten(2), weight.permute(0, 2, 3, 1).flatten(1))
    return found.transpose(1, 2).view(features.shape[0], -1, *features.shape[2:])


def fused_columns(features: Tensor, offsets: Tensor) -> Tensor:
    """Run the kernel. Under autocast it writes autocast's dtype, in which the matrix product after it computes."""
    device = features.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features.dtype
    found: Tensor = columns_kernel(features, offsets, dtype)
    return found


def matches_reference(device: torch.device) -> bool:
    """True if columns and gradients agree with the reference, also outside the map and in a small one."""
    wave = TestInputs(device)
    for height, width in ((5, 7), (1, 2)):
        features, offsets = wave(2, 35, height, width), wave(2, 18, height, width, size=3.3, by=2.0)
        results: list[list[Tensor]] = []
        for run, dtype in ((fused_columns, torch.float32), (columns_reference, torch.float64)):
            leaves = [part.to(dtype, copy=True).requires_grad_() for part in (features, offsets)]
            output = run(*leaves)
            results.append([output, *torch.autograd.grad(output.sin().sum(), leaves)])
        for found, expected in zip(*results, strict=True):
            if not (found.double() - expected).norm() <= 1e-4 * expected.norm():
                return False
    return True


SELF_TEST = SelfTest("deformable_columns", matches_reference)
