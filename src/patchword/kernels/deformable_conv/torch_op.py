"""The columns of a deformable convolution as an operation of torch, which compiled models run.

The autograd formula is registered by hand, as for window attention.
"""

from typing import Any, cast

import torch
from torch import Tensor

from patchword.kernels.deformable_conv.reference import TAPS, columns_reference
from patchword.kernels.deformable_conv.tuning import CHANNELS, PLACES, WARPS
from patchword.kernels.window_attention.torch_op import LIBRARY, TAGS, allocate, on_device

_GIVEN = "Tensor features, Tensor offsets"
LIBRARY.define(f"deformable_columns({_GIVEN}, ScalarType dtype) -> Tensor", tags=TAGS)
LIBRARY.define(f"deformable_columns_forward({_GIVEN}, ScalarType dtype) -> Tensor", tags=TAGS)
LIBRARY.define(f"deformable_columns_back(Tensor gradient, {_GIVEN}) -> (Tensor, Tensor)", tags=TAGS)
columns_kernel = torch.ops.patchword.deformable_columns.default
_forward = torch.ops.patchword.deformable_columns_forward.default
_backward = torch.ops.patchword.deformable_columns_back.default


@torch.library.impl(LIBRARY, "deformable_columns_forward", "CompositeExplicitAutograd")
def _gather(features: Tensor, offsets: Tensor, dtype: torch.dtype) -> Tensor:
    from patchword.kernels.deformable_conv.triton import gather

    output = _gather_fake(features, offsets, dtype)
    if output.numel():
        channels = features.shape[1]
        grid = -(-(output.numel() // channels) // PLACES), -(-channels // CHANNELS)
        with on_device(output):
            gather[grid](_cells(features), offsets.contiguous(), output, *_numbers(features), num_warps=WARPS)
    return output


def _gather_fake(features: Tensor, offsets: Tensor, dtype: torch.dtype) -> Tensor:
    batch, channels, height, width = features.shape
    return allocate(features, (batch, height * width, TAPS, channels), dtype)


@torch.library.impl(LIBRARY, "deformable_columns_back", "CompositeExplicitAutograd")
def _scatter(gradient: Tensor, features: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of the map, summed in float32, and of the offsets."""
    from patchword.kernels.deformable_conv.triton import scatter

    batch, channels, height, width = features.shape
    sums = allocate(features, (batch, height, width, channels), torch.float32).zero_()
    of_offsets = allocate(offsets, offsets.shape)
    if gradient.numel():
        tensors = _cells(features), offsets.contiguous(), gradient.contiguous(), sums, of_offsets
        with on_device(gradient):
            scatter[-(-(gradient.numel() // channels) // PLACES),](*tensors, *_numbers(features), num_warps=WARPS)
    return sums.permute(0, 3, 1, 2).to(features.dtype).contiguous(), of_offsets


def _scatter_fake(gradient: Tensor, features: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    return allocate(features, features.shape), allocate(offsets, offsets.shape)


LIBRARY.impl("deformable_columns", _gather, "CompositeExplicitAutograd")
for _name, _fake in (("", _gather_fake), ("_forward", _gather_fake), ("_back", _scatter_fake)):
    torch.library.register_fake(f"patchword::deformable_columns{_name}", _fake, lib=LIBRARY)


class _Columns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, offsets: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(features, offsets)
        return cast(Tensor, _forward(features, offsets, dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        if not torch.is_grad_enabled():
            return *_backward(gradient, *ctx.saved_tensors), None
        inputs = [part.view_as(part) for part in ctx.saved_tensors]  # a second derivative is needed
        output = columns_reference(*inputs)
        own = [part for part in inputs if part.requires_grad]
        found = iter(torch.autograd.grad(output, own, gradient.to(output.dtype), create_graph=True))
        return *(next(found) if part.requires_grad else None for part in inputs), None


@torch.library.impl(LIBRARY, "deformable_columns", "Autograd")
def _with_autograd(features: Tensor, offsets: Tensor, dtype: torch.dtype) -> Tensor:
    if torch.is_grad_enabled() and (features.requires_grad or offsets.requires_grad):
        return cast(Tensor, _Columns.apply(features, offsets, dtype))  # type: ignore[no-untyped-call]  # torch's own
    return cast(Tensor, _forward(features, offsets, dtype))


def _cells(features: Tensor) -> Tensor:
    """(batch, channels, height, width) -> (batch, height, width, channels), contiguous"""
    return features.permute(0, 2, 3, 1).contiguous()


def _numbers(features: Tensor) -> tuple[int, ...]:
    batch, channels, height, width = features.shape
    return batch * height * width * TAPS, height, width, channels, TAPS, PLACES, CHANNELS
