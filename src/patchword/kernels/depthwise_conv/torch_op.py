"""The depthwise convolution over a map as an operation of torch, and its gradient as another.

Compiled models run them. Neither has an autograd rule; operation.py registers it.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from patchword.kernels.window_attention.torch_op import LIBRARY, TAGS, allocate, on_device

if TYPE_CHECKING:
    from patchword.kernels.depthwise_conv.launch import Map

__all__ = ["GIVEN", "LIBRARY", "TAGS", "filter_back", "filter_fake", "filter_forward", "filter_map"]
_FILTER, _MAP = "Tensor tokens, Tensor weight, Tensor? bias", "SymInt height, SymInt width"
GIVEN = f"{_FILTER}, {_MAP}, ScalarType dtype"
LIBRARY.define(f"depthwise_conv_forward({GIVEN}) -> Tensor", tags=TAGS)
LIBRARY.define(f"depthwise_conv_back(Tensor gradient, {_FILTER}, {_MAP}) -> (Tensor, Tensor, Tensor)", tags=TAGS)
filter_forward = torch.ops.patchword.depthwise_conv_forward.default
filter_back = torch.ops.patchword.depthwise_conv_back.default


@torch.library.impl(LIBRARY, "depthwise_conv_forward", "CompositeExplicitAutograd")
def filter_map(
    tokens: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int, dtype: torch.dtype
) -> Tensor:
    from patchword.kernels.depthwise_conv.launch import forward

    tokens, weight, output = (
        _with_contiguous_channels(tokens),
        weight.contiguous(),
        allocate(tokens, tokens.shape, dtype),
    )
    if not output.numel():
        return output
    bias = None if bias is None else bias.contiguous()
    with on_device(output):
        run = forward(_map(height, width, tokens, weight, bias, output))
        run(tokens, weight, weight if bias is None else bias, output, output)
    return output


def filter_fake(
    tokens: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int, dtype: torch.dtype
) -> Tensor:
    return allocate(tokens, tokens.shape, dtype)


torch.library.register_fake("patchword::depthwise_conv_forward", filter_fake, lib=LIBRARY)


@torch.library.impl(LIBRARY, "depthwise_conv_back", "CompositeExplicitAutograd")
def _filter_back(
    gradient: Tensor, tokens: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of tokens, weight and bias; the last also if there is no bias."""
    from patchword.kernels.depthwise_conv.launch import backward

    found = _empty_gradients(tokens, weight, bias)
    tokens, weight, gradient = _with_contiguous_channels(tokens), weight.contiguous(), gradient.contiguous()
    if not tokens.numel():
        return found[0], found[1].zero_(), found[2].zero_()
    with on_device(gradient):
        plan = backward(_map(height, width, tokens, weight, found[2], gradient))
        plan.tokens(gradient, weight, weight, gradient, found[0])
        parts = allocate(gradient, plan.taps.parts, torch.float32)
        plan.taps.main(tokens, gradient, parts)
        plan.taps.total(parts, *found[1:])
    return found


def _back_fake(
    gradient: Tensor, tokens: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_gradients(tokens, weight, bias)


torch.library.register_fake("patchword::depthwise_conv_back", _back_fake, lib=LIBRARY)


def _empty_gradients(tokens: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    dtype = weight.dtype if bias is None else bias.dtype
    return allocate(tokens, tokens.shape), allocate(weight, weight.shape), allocate(weight, weight.shape[:1], dtype)


def _map(height: int, width: int, tokens: Tensor, *others: Tensor | None) -> "Map":
    from patchword.kernels.depthwise_conv.launch import Map

    dtypes = tuple([None if part is None else part.dtype for part in (tokens, *others)])
    return Map(tokens.shape, tokens.stride(), height, width, dtypes, tokens.get_device())


def _with_contiguous_channels(tokens: Tensor) -> Tensor:
    return tokens if tokens.stride(-1) == 1 else tokens.contiguous()
