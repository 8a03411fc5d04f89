"""A convolution with its bias, a sum and ReLU as one operation of cuDNN, for inference in 16 bits on a GPU."""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, TestInputs, is_usable
from patchword.kernels.common.register_op import register_op

_DTYPES = (torch.bfloat16, torch.float16)


def has_conv_relu(feature_map: Tensor) -> bool:
    """True for channels-last maps of 16 bits on a GPU."""
    if not feature_map.is_cuda or feature_map.dtype not in _DTYPES:
        return False
    return feature_map.is_contiguous(memory_format=torch.channels_last) and is_usable(feature_map, SELF_TEST)


def conv_relu(
    feature_map: Tensor, weight: Tensor, bias: Tensor, stride: int = 1, padding: int = 0, addend: Tensor | None = None
) -> Tensor:
    """Return relu(convolution + bias + addend): (batch, channels, height, width) -> (batch, outputs, rows, columns).

    addend: of the shape of the result, or None.
    """
    found: Tensor = _conv_relu(feature_map, weight, bias, addend, stride, padding)
    return found


def conv_relu_reference(
    feature_map: Tensor, weight: Tensor, bias: Tensor, stride: int = 1, padding: int = 0, addend: Tensor | None = None
) -> Tensor:
    """Compute the same with operations of torch."""
    found = F.conv2d(feature_map, weight, bias, stride, padding)
    return torch.relu(found if addend is None else found + addend)


def _run(feature_map: Tensor, weight: Tensor, bias: Tensor, addend: Tensor | None, stride: int, padding: int) -> Tensor:
    weight = weight.contiguous(memory_format=torch.channels_last)
    sizes: tuple[Sequence[int], ...] = ([stride, stride], [padding, padding], [1, 1])
    if addend is None:
        return cast(Tensor, torch.ops.aten.cudnn_convolution_relu(feature_map, weight, bias, *sizes, 1))
    addend = addend.contiguous(memory_format=torch.channels_last)
    found = torch.ops.aten.cudnn_convolution_add_relu(feature_map, weight, addend, 1.0, bias, *sizes, 1)
    return cast(Tensor, found)


def _shape(
    feature_map: Tensor, weight: Tensor, bias: Tensor, addend: Tensor | None, stride: int, padding: int
) -> Tensor:
    rows, columns = (
        (side + 2 * padding - size) // stride + 1
        for side, size in zip(feature_map.shape[2:], weight.shape[2:], strict=True)
    )
    shape = feature_map.shape[0], weight.shape[0], rows, columns
    return torch.empty(shape, dtype=feature_map.dtype, device=feature_map.device, memory_format=torch.channels_last)


_conv_relu = register_op(
    "conv_relu", "Tensor map, Tensor weight, Tensor bias, Tensor? addend, SymInt stride, SymInt padding", _run, _shape
)


def matches_reference(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """True if results with and without an addend, with a stride and with padding, agree with the reference."""
    wave = TestInputs(device, dtype)
    given = wave(2, 16, 9, 12).contiguous(memory_format=torch.channels_last)
    bias = wave(24, size=0.5)
    for kernel, stride, has_addend in ((1, 1, True), (3, 1, False), (3, 2, True), (4, 1, False)):
        weight, padding = wave(24, 16, kernel, kernel, size=0.3), kernel // 2 if kernel % 2 else 0
        shape = conv_relu_reference(given, weight, bias, stride, padding).shape
        addend = wave(*shape, by=3.0).contiguous(memory_format=torch.channels_last) if has_addend else None
        found = conv_relu(given, weight, bias, stride, padding, addend)
        exact = given.double(), weight.double(), bias.double()
        expected = conv_relu_reference(*exact, stride, padding, None if addend is None else addend.double())
        if not (found.double() - expected).norm() <= 2e-2 * expected.norm():
            return False
    return True


SELF_TEST = SelfTest("convolution, sum and ReLU", matches_reference)
