"""Attention inside rectangles as one differentiable operation of torch, which a model calls.

Autograd is told of it by hand: torch.library.register_autograd flattens lists of tensors anew at every call, which took
longer than the kernel.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from patchword.kernels.window_attention.reference import window_attention_reference
from patchword.kernels.window_attention.tiling import from_numbers
from patchword.kernels.window_attention.torch_op import (
    GIVEN,
    LIBRARY,
    NUMBERS,
    SOUND,
    attend,
    attend_back,
    attend_fake,
    attend_forward,
)

LIBRARY.define(f"window_attention({GIVEN}, {NUMBERS}) -> (Tensor, Tensor)", tags=SOUND)
LIBRARY.impl("window_attention", attend, "CompositeExplicitAutograd")
torch.library.register_fake("patchword::window_attention", attend_fake, lib=LIBRARY)
Answer = tuple[Tensor, Tensor]
attend_windows = torch.ops.patchword.window_attention.default


class _Attend(torch.autograd.Function):
    """counts: how many of the tensors are held, tables and taps. numbers: with heads and scale"""

    @staticmethod
    def forward(
        ctx: Any, counts: tuple[int, ...], numbers: tuple[Any, ...], seeds: Tensor | None, rate: float, *tensors: Tensor
    ) -> Answer:
        merged, sums = attend_forward(*_in_lists(tensors, counts), *numbers, seeds, rate)
        ctx.counts, ctx.numbers, ctx.rate = counts, numbers, rate
        ctx.save_for_backward(*tensors, merged, sums, seeds)
        ctx.mark_non_differentiable(sums)
        ctx.set_materialize_grads(False)
        return merged, sums

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, _: None) -> tuple[Any, ...]:
        *given, merged, sums, seeds = ctx.saved_tensors
        if gradient is None:
            return (None,) * (4 + len(given))
        lists, (numbers, heads, scale) = _in_lists(given, ctx.counts), ctx.numbers
        rest = numbers, heads, scale, seeds, ctx.rate
        if torch.is_grad_enabled():  # the gradient's own gradient is wanted
            return None, None, None, None, *_plain_gradients(gradient, lists, *rest)
        return None, None, None, None, *attend_back(gradient, *lists, merged, sums, *rest)


@torch.library.impl(LIBRARY, "window_attention", "Autograd")
def _differentiably(
    held: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float,
    seeds: Tensor | None = None, rate: float = 0.0,
) -> Answer:  # fmt: skip
    tensors = (*held, *tables, *taps)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        counts = len(held), len(tables), len(taps)
        given = (numbers, heads, scale), seeds, rate
        found = _Attend.apply(counts, *given, *tensors)  # type: ignore[no-untyped-call]  # torch's own
        return cast(Answer, found)
    return cast(Answer, attend_forward(held, tables, taps, numbers, heads, scale, seeds, rate))


def _plain_gradients(
    gradient: Tensor, lists: list[list[Tensor]], numbers: list[int], heads: int, scale: float,
    seeds: Tensor | None, rate: float,
) -> Iterator[Tensor | None]:  # fmt: skip
    """With respect to other names of what was given: one of them may have been made of another."""
    lists = [[tensor.view_as(tensor) for tensor in part] for part in lists]
    held, tables, taps = lists
    answer = window_attention_reference(held, tables, taps, from_numbers(numbers), heads, scale, seeds, rate)
    given = [tensor for part in lists for tensor in part]
    asked = [tensor for tensor in given if tensor.requires_grad]
    found = iter(torch.autograd.grad(answer, asked, gradient, create_graph=True))
    return (next(found) if tensor.requires_grad else None for tensor in given)


def _in_lists(flat: Sequence[Any], counts: tuple[int, ...]) -> list[list[Any]]:
    each = iter(flat)
    return [[next(each) for _ in range(count)] for count in counts]
