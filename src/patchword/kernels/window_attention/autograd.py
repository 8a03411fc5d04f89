"""Window attention as one differentiable operation of torch, which models call.

Its autograd rule is registered by hand: torch.library.register_autograd flattens lists of tensors at every call, which
takes longer than the kernel.
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
    TAGS,
    attend,
    attend_fake,
    window_attention_backward,
    window_attention_forward,
)

LIBRARY.define(f"window_attention({GIVEN}, {NUMBERS}) -> (Tensor, Tensor)", tags=TAGS)
LIBRARY.impl("window_attention", attend, "CompositeExplicitAutograd")
torch.library.register_fake("patchword::window_attention", attend_fake, lib=LIBRARY)
OutputAndLogSumExp = tuple[Tensor, Tensor]
attend_windows = torch.ops.patchword.window_attention.default


class _WindowAttention(torch.autograd.Function):
    """counts: the numbers of tensors in qkv, tables and taps. numbers: those of the rectangles, heads and scale"""

    @staticmethod
    def forward(
        ctx: Any, counts: tuple[int, ...], numbers: tuple[Any, ...], seeds: Tensor | None, rate: float, *tensors: Tensor
    ) -> OutputAndLogSumExp:
        output, logsumexp = window_attention_forward(*_in_lists(tensors, counts), *numbers, seeds, rate)
        ctx.counts, ctx.numbers, ctx.rate = counts, numbers, rate
        ctx.save_for_backward(*tensors, output, logsumexp, seeds)
        ctx.mark_non_differentiable(logsumexp)
        ctx.set_materialize_grads(False)
        return output, logsumexp

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, _: None) -> tuple[Any, ...]:
        *given, output, logsumexp, seeds = ctx.saved_tensors
        if gradient is None:
            return (None,) * (4 + len(given))
        lists, (numbers, heads, scale) = _in_lists(given, ctx.counts), ctx.numbers
        rest = numbers, heads, scale, seeds, ctx.rate
        if torch.is_grad_enabled():  # second derivatives need a graph
            return None, None, None, None, *_reference_gradients(gradient, lists, *rest)
        return None, None, None, None, *window_attention_backward(gradient, *lists, output, logsumexp, *rest)


@torch.library.impl(LIBRARY, "window_attention", "Autograd")
def _with_autograd(
    qkv: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float,
    seeds: Tensor | None = None, rate: float = 0.0,
) -> OutputAndLogSumExp:  # fmt: skip
    tensors = (*qkv, *tables, *taps)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        counts = len(qkv), len(tables), len(taps)
        given = (numbers, heads, scale), seeds, rate
        found = _WindowAttention.apply(counts, *given, *tensors)  # type: ignore[no-untyped-call]  # torch's own
        return cast(OutputAndLogSumExp, found)
    return cast(OutputAndLogSumExp, window_attention_forward(qkv, tables, taps, numbers, heads, scale, seeds, rate))


def _reference_gradients(
    gradient: Tensor, lists: list[list[Tensor]], numbers: list[int], heads: int, scale: float,
    seeds: Tensor | None, rate: float,
) -> Iterator[Tensor | None]:  # fmt: skip
    """Differentiates the reference with respect to views of the inputs, because one input may depend on another."""
    lists = [[tensor.view_as(tensor) for tensor in part] for part in lists]
    qkv, tables, taps = lists
    output = window_attention_reference(qkv, tables, taps, from_numbers(numbers), heads, scale, seeds, rate)
    given = [tensor for part in lists for tensor in part]
    inputs = [tensor for tensor in given if tensor.requires_grad]
    found = iter(torch.autograd.grad(output, inputs, gradient, create_graph=True))
    return (next(found) if tensor.requires_grad else None for tensor in given)


def _in_lists(flat: Sequence[Any], counts: tuple[int, ...]) -> list[list[Any]]:
    each = iter(flat)
    return [[next(each) for _ in range(count)] for count in counts]
