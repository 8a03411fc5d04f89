"""Attention inside rectangles as an operation of torch, and its gradient as another: what a compiled model runs.

An operation knows lists of tensors and numbers alone, so what a share has not is an empty tensor here; of taps a share
has two, those of its filter and its constant. Neither has a rule for autograd (window_gradient has it), so that calling
them costs no more than a step through torch's dispatcher.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from patchword.kernels.window_attention.launch import Call
    from patchword.kernels.window_attention.launch_backward import Back

# Defined by hand: an operation of torch.library.custom_op takes twice as long to call.
LIBRARY = torch.library.Library("patchword", "FRAGMENT")
GIVEN, NUMBERS = (
    "Tensor[] held, Tensor[] tables, Tensor[] taps",
    ("SymInt[] numbers, SymInt heads, float scale, Tensor? seeds=None, float rate=0.0"),
)
SOUND = (torch.Tag.pt2_compliant_tag,)
LIBRARY.define(f"window_attention_forward({GIVEN}, {NUMBERS}) -> (Tensor, Tensor)", tags=SOUND)
_BEFORE = f"Tensor gradient, {GIVEN}, Tensor merged, Tensor sums, {NUMBERS}"
LIBRARY.define(f"window_attention_back({_BEFORE}) -> Tensor[]", tags=SOUND)
attend_forward = torch.ops.patchword.window_attention_forward.default
attend_back = torch.ops.patchword.window_attention_back.default


@torch.library.impl(LIBRARY, "window_attention_forward", "CompositeExplicitAutograd")
def attend(
    held: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float,
    seeds: Tensor | None = None, rate: float = 0.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The merged tokens, and (batch, heads of all shares, tokens) the logarithms of the sums of exponentials."""
    from patchword.kernels.window_attention.launch import forward

    held, tables, taps = _lying_alike(held), _packed(tables), _packed(taps)
    merged, sums = _empty(held, heads * len(tables))
    if not merged.numel():
        return merged, sums
    three = held * 3 if len(held) == 1 else held
    with on_device(merged):
        plans = forward(_call(held, tables, taps, numbers, heads, scale, rate))
        drawn = sums if seeds is None else seeds
        for plan, table, *own in zip(plans, tables, taps[::2], taps[1::2], strict=True):
            plan.main(*three, table, merged, sums, *((drawn,) if plan.whole else ()))
            if plan.local:
                plan.local(three[2], *own, merged, merged)
    return merged, sums


def attend_fake(
    held: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float,
    seeds: Tensor | None = None, rate: float = 0.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return _empty(held, heads * len(tables))


torch.library.register_fake("patchword::window_attention_forward", attend_fake, lib=LIBRARY)


@torch.library.impl(LIBRARY, "window_attention_back", "CompositeExplicitAutograd")
def _attend_back(
    gradient: Tensor, held: list[Tensor], tables: list[Tensor], taps: list[Tensor], merged: Tensor, sums: Tensor,
    numbers: list[int], heads: int, scale: float, seeds: Tensor | None = None, rate: float = 0.0,
) -> list[Tensor]:  # fmt: skip
    """The gradients of held, tables and taps, one behind the other; those of queries, keys and values lie as these."""
    from patchword.kernels.window_attention.launch_backward import backward

    found = [room(part, part.shape) for part in (*held, *tables, *taps)]
    if not merged.numel():
        return [part.zero_() for part in found]
    held, tables, taps, gradient = _lying_alike(held), _packed(tables), _packed(taps), gradient.contiguous()
    three, back = (held * 3, found[:1] * 3) if len(held) == 1 else (held, found[:3])
    of_tables, of_taps = found[len(held) :][: len(tables)], found[len(held) + len(tables) :]
    with on_device(merged):
        plans = backward(_call(held, tables, taps, numbers, heads, scale, rate))
        drawn = sums if seeds is None else seeds
        means = room(sums, sums.shape) if any(plan.keys for plan in plans) else sums
        for plan, table, to_table in zip(plans, tables, of_tables, strict=True):
            _attention_back(plan, three, table, to_table, merged, gradient, sums, means, back, drawn)
        for number, plan in enumerate(plans):
            if plan.local:
                own, to_own = (parts[2 * number : 2 * number + 2] for parts in (taps, of_taps))
                plan.local.values(gradient, *own, back[-1], back[-1])
                parts = room(sums, plan.local.taps.parts)
                plan.local.taps.main(three[2], gradient, parts)
                plan.local.taps.total(parts, *to_own)
    return found


def _attention_back(
    plan: "Back", three: list[Tensor], table: Tensor, to_table: Tensor, merged: Tensor, gradient: Tensor, sums: Tensor,
    means: Tensor, back: list[Tensor], seeds: Tensor,
) -> None:  # fmt: skip
    biases = room(sums, plan.table.parts) if plan.table else sums
    if plan.keys is None:
        plan.main(*three, table, gradient, sums, *back, biases, seeds)
    else:
        plan.main(*three, table, merged, gradient, sums, means, back[0])
        plan.keys(*three, table, gradient, sums, means, *back[1:])
        if plan.table and plan.table.biases:
            plan.table.biases(*three, table, gradient, sums, means, biases)
    if plan.table:
        plan.table.fold(biases, to_table)


def _back_fake(
    gradient: Tensor, held: list[Tensor], tables: list[Tensor], taps: list[Tensor], merged: Tensor, sums: Tensor,
    numbers: list[int], heads: int, scale: float, seeds: Tensor | None = None, rate: float = 0.0,
) -> list[Tensor]:  # fmt: skip
    return [room(part, part.shape) for part in (*held, *tables, *taps)]


torch.library.register_fake("patchword::window_attention_back", _back_fake, lib=LIBRARY)


def _call(
    held: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float,
    rate: float,
) -> "Call":  # fmt: skip
    from patchword.kernels.window_attention.launch import Call

    first = held[0]
    of_tables, of_taps = (tuple([part.dtype if part.numel() else None for part in parts]) for parts in (tables, taps))
    shape, strides, joint, device = first.shape, first.stride(), len(held) == 1, first.get_device()
    return Call(tuple(numbers), heads, scale, shape, strides, joint, first.dtype, of_tables, of_taps, device, rate)


def _lying_alike(held: list[Tensor]) -> list[Tensor]:
    """Channels of a token lie side by side, and tokens of queries, keys and values at the same distances."""
    strides = held[0].stride()
    if strides[-1] == 1 and (len(held) == 1 or strides == held[1].stride() == held[2].stride()):
        return held
    return [part.contiguous() for part in held]


def _packed(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.contiguous() for tensor in tensors]


def _empty(held: list[Tensor], heads: int) -> tuple[Tensor, Tensor]:
    batch, tokens, width = held[0].shape
    merged = room(held[0], (batch, tokens, width // 3 if len(held) == 1 else width))
    return merged, room(held[0], (batch, heads, tokens), torch.float32)


def room(like: Tensor, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    """memory that a kernel writes"""
    return like.new_empty(shape, dtype=dtype)


def on_device(tensor: Tensor) -> AbstractContextManager[object]:
    """kernels are sent to the GPU that holds the tensors"""
    elsewhere = tensor.is_cuda and tensor.get_device() != torch.cuda.current_device()
    return torch.cuda.device(tensor.device) if elsewhere else nullcontext()
