"""A depthwise 3 x 3 convolution over a map whose tokens are stored row by row, differentiable.

For conditional positions and separable projections. The kernel (lepe_conv_triton) reads tokens as they are stored and
writes outputs in the same layout. The autograd formula is registered by hand, as for window attention.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, TestInputs, is_usable
from patchword.kernels.depthwise_conv.reference import depthwise_conv_reference
from patchword.kernels.depthwise_conv.torch_op import (
    GIVEN,
    LIBRARY,
    TAGS,
    filter_back,
    filter_fake,
    filter_forward,
    filter_map,
)

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
LIBRARY.define(f"depthwise_conv({GIVEN}) -> Tensor", tags=TAGS)
LIBRARY.impl("depthwise_conv", filter_map, "CompositeExplicitAutograd")
torch.library.register_fake("patchword::depthwise_conv", filter_fake, lib=LIBRARY)
_filter = torch.ops.patchword.depthwise_conv.default


def has_depthwise_conv_kernel(tokens: Tensor) -> bool:
    return tokens.is_cuda and tokens.dtype in _DTYPES and is_usable(tokens, SELF_TEST)


def has_depthwise_conv2d_kernel(feature_map: Tensor) -> bool:
    """The kernel reads maps whose channels are stored last, as tokens are."""
    return has_depthwise_conv_kernel(feature_map) and feature_map.is_contiguous(memory_format=torch.channels_last)


def depthwise_conv(
    tokens: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int, dtype: torch.dtype | None = None
) -> Tensor:
    """(batch, height * width, channels) -> the same, convolved.

    weight: (channels, 1, 3, 3), bias: (channels,). dtype: of the output; by default that of a convolution, which under
    autocast is autocast's.
    """
    output: Tensor = _filter(tokens, weight, bias, height, width, dtype or _output_dtype(tokens))
    return output


def depthwise_conv2d(feature_map: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A depthwise convolution of 3 x 3 with zeros around the map: by the kernel, or by F.conv2d.

    (batch, channels, height, width) -> the same. weight: (channels, 1, 3, 3)
    """
    if not has_depthwise_conv2d_kernel(feature_map):
        return F.conv2d(feature_map, weight, bias, padding=1, groups=len(weight))
    height, width = feature_map.shape[2:]
    output = depthwise_conv(feature_map.flatten(2).transpose(1, 2), weight, bias, height, width)
    convolved: Tensor = output.transpose(1, 2).unflatten(2, (height, width))
    return convolved


def _output_dtype(tokens: Tensor) -> torch.dtype:
    device = tokens.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tokens.dtype


class _Filter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
        ctx.rest = rest
        ctx.save_for_backward(tokens, weight, bias)
        return cast(Tensor, filter_forward(tokens, weight, bias, *rest))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        tokens, weight, bias = ctx.saved_tensors
        height, width, _ = ctx.rest
        if torch.is_grad_enabled():  # a second derivative is needed
            return *_reference_gradients(gradient, tokens, weight, bias, height, width), None, None, None
        found = filter_back(gradient, tokens, weight, bias, height, width)
        for_bias = None if bias is None else found[2]
        return found[0], found[1], for_bias, None, None, None


@torch.library.impl(LIBRARY, "depthwise_conv", "Autograd")
def _with_autograd(tokens: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
    given = tokens, weight, bias
    if torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in given):
        return cast(Tensor, _Filter.apply(*given, *rest))  # type: ignore[no-untyped-call]  # torch has no types
    return cast(Tensor, filter_forward(*given, *rest))


def _reference_gradients(
    gradient: Tensor, tokens: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int
) -> list[Tensor | None]:
    """Differentiates the reference with respect to views of the inputs, because one input may depend on another."""
    tokens, weight, bias = tokens.view_as(tokens), weight.view_as(weight), None if bias is None else bias.view_as(bias)
    dtype, given = tokens.dtype, [tokens, weight, bias]
    output = depthwise_conv_reference(tokens, weight.to(dtype), None if bias is None else bias.to(dtype), height, width)
    asked = [part for part in given if part is not None and part.requires_grad]
    found = iter(torch.autograd.grad(output, asked, gradient.to(output.dtype), create_graph=True))
    return [next(found) if part is not None and part.requires_grad else None for part in given]


def matches_reference(device: torch.device, short: torch.dtype = torch.bfloat16) -> bool:
    """True if the convolution and its gradients agree with the reference, in 32 bits and in 16."""
    return _matches_reference_at(device, torch.float32, 1e-4) and _matches_reference_at(device, short, 1e-2)


def _matches_reference_at(device: torch.device, dtype: torch.dtype, bound: float) -> bool:
    wave = TestInputs(device, dtype)
    given = wave(2, 20, 24), wave(24, 1, 3, 3), wave(24)
    exact = [part.double().requires_grad_() for part in given]  # in float64, which a GPU does not round to TF32
    expected = depthwise_conv_reference(exact[0], exact[1], exact[2], 4, 5)
    gradients = torch.autograd.grad(expected.sin().sum(), exact)
    output = depthwise_conv(*given, 4, 5)
    found = [output, *filter_back(output.cos(), *given, 4, 5)]
    pairs = zip(found, (expected, *gradients), strict=True)
    return all(bool((one.double() - other).norm() < bound * other.norm()) for one, other in pairs)


SELF_TEST = SelfTest("depthwise_conv", matches_reference)
