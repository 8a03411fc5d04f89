"""A depthwise filter of 3 x 3 over a map whose tokens lie row by row: conditional positions, separable projections.

A kernel for GPUs (window_local) reads tokens where they lie and writes answers that lie alike. The twin is
plain_neighbours. As with windows, autograd is told of it by hand.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.availability import Trial, is_usable
from patchword.kernels.neighbours_operation import (
    GIVEN,
    LIBRARY,
    SOUND,
    filter_back,
    filter_fake,
    filter_forward,
    filter_map,
)

_KINDS = (torch.float32, torch.bfloat16, torch.float16)
LIBRARY.define(f"neighbours({GIVEN}) -> Tensor", tags=SOUND)
LIBRARY.impl("neighbours", filter_map, "CompositeExplicitAutograd")
torch.library.register_fake("patchword::neighbours", filter_fake, lib=LIBRARY)
_filter = torch.ops.patchword.neighbours.default


def has_neighbours_kernel(tokens: Tensor) -> bool:
    return tokens.is_cuda and tokens.dtype in _KINDS and is_usable(tokens, TRIAL)


def neighbours(
    tokens: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int, plus: Tensor | None = None
) -> Tensor:
    """(batch, height * width, channels) -> the same, with the filter's answer for each token, and `plus`, if it is
    given. weight: (channels, 1, 3, 3), bias: (channels,). Under autocast the answer has its kind, as a convolution's.
    """
    answer: Tensor = _filter(tokens, weight, bias, plus, height, width, _kind(tokens, plus))
    return answer


def plain_neighbours(
    tokens: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int, plus: Tensor | None = None
) -> Tensor:
    feature_map = tokens.transpose(1, 2).unflatten(2, (height, width))
    answer = F.conv2d(feature_map, weight, bias, padding=1, groups=len(weight)).flatten(2).transpose(1, 2)
    return answer if plus is None else answer + plus


def _kind(tokens: Tensor, plus: Tensor | None) -> torch.dtype:
    device, kind = tokens.device.type, tokens.dtype
    if torch.is_autocast_enabled(device):
        kind = torch.get_autocast_dtype(device)
    return kind if plus is None else torch.promote_types(kind, plus.dtype)


class _Filter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, weight: Tensor, bias: Tensor | None, plus: Tensor | None, *rest: Any
    ) -> Tensor:
        ctx.rest = rest
        ctx.save_for_backward(tokens, weight, bias, plus)
        return cast(Tensor, filter_forward(tokens, weight, bias, plus, *rest))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        tokens, weight, bias, plus = ctx.saved_tensors
        height, width, _ = ctx.rest
        if torch.is_grad_enabled():  # the gradient's own gradient is wanted
            return *_plain_gradients(gradient, tokens, weight, bias, plus, height, width), None, None, None
        found = filter_back(gradient, tokens, weight, bias, height, width)
        for_bias = None if bias is None else found[2]
        for_plus = gradient.to(plus.dtype) if plus is not None and ctx.needs_input_grad[3] else None
        return found[0], found[1], for_bias, for_plus, None, None, None


@torch.library.impl(LIBRARY, "neighbours", "Autograd")
def _differentiably(tokens: Tensor, weight: Tensor, bias: Tensor | None, plus: Tensor | None, *rest: Any) -> Tensor:
    given = tokens, weight, bias, plus
    if torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in given):
        return cast(Tensor, _Filter.apply(*given, *rest))  # type: ignore[no-untyped-call]
    return cast(Tensor, filter_forward(*given, *rest))


def _plain_gradients(
    gradient: Tensor, tokens: Tensor, weight: Tensor, bias: Tensor | None, plus: Tensor | None, height: int, width: int
) -> list[Tensor | None]:
    given = [tokens, weight, bias, plus]
    kind = tokens.dtype
    answer = plain_neighbours(tokens, weight.to(kind), None if bias is None else bias.to(kind), height, width, plus)
    asked = [part for part in given if part is not None and part.requires_grad]
    found = iter(torch.autograd.grad(answer, asked, gradient.to(answer.dtype), create_graph=True))
    return [next(found) if part is not None and part.requires_grad else None for part in given]


def alike(device: torch.device) -> bool:
    """Whether a filter and its gradients are those of the plain way."""

    def wave(*shape: int) -> Tensor:
        count = torch.Size(shape).numel()
        return torch.linspace(-count, count, count, device=device).sin().view(shape).requires_grad_()

    with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
        given = wave(2, 20, 24), wave(24, 1, 3, 3), wave(24)
        expected = plain_neighbours(*given, 4, 5)
        gradients = torch.autograd.grad(expected.sin().sum(), given)
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        answer = neighbours(*given, 4, 5)
        found = [answer, *filter_back(answer.cos(), *given, 4, 5)]
    return all(torch.allclose(one, other, 1e-3, 1e-4) for one, other in zip(found, (expected, *gradients), strict=True))


TRIAL = Trial("depthwise filters", alike)
