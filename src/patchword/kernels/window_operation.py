"""Attention inside rectangles as an operation of torch, and its gradient as another: what a compiled model runs.

An operation knows lists of tensors and numbers alone, so what a share has not is an empty tensor here. Neither has a
rule for autograd (window_gradient has it), so that calling them costs no more than a step through torch's dispatcher.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from patchword.kernels.window_launch import Call
    from patchword.kernels.window_launch_backward import Back

# Defined by hand: an operation of torch.library.custom_op takes twice as long to call.
LIBRARY = torch.library.Library("patchword", "FRAGMENT")
GIVEN, NUMBERS = "Tensor[] held, Tensor[] tables, Tensor[] taps", "SymInt[] numbers, SymInt heads, float scale"
SOUND = (torch.Tag.pt2_compliant_tag,)
LIBRARY.define(f"windows_forward({GIVEN}, {NUMBERS}) -> (Tensor, Tensor)", tags=SOUND)
_BEFORE = f"Tensor gradient, {GIVEN}, Tensor merged, Tensor sums, {NUMBERS}"
LIBRARY.define(f"windows_back({_BEFORE}) -> Tensor[]", tags=SOUND)
attend_forward = torch.ops.patchword.windows_forward.default
attend_back = torch.ops.patchword.windows_back.default


@torch.library.impl(LIBRARY, "windows_forward", "CompositeExplicitAutograd")
def attend(
    held: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float
) -> tuple[Tensor, Tensor]:
    """The merged tokens, and (batch, heads of all shares, tokens) the logarithms of the sums of exponentials."""
    from patchword.kernels.window_launch import forward

    held, tables, taps = _lying_alike(held), _packed(tables), _turned(taps)
    merged, sums = _empty(held, heads * len(tables))
    three = held * 3 if len(held) == 1 else held
    with _on(merged):
        for run, table, tap in zip(
            forward(_call(held, tables, taps, numbers, heads, scale)), tables, taps, strict=True
        ):
            run(*three, table, tap, merged, sums)
    return merged, sums


@torch.library.register_fake("patchword::windows_forward", lib=LIBRARY)  # type: ignore[untyped-decorator]
def attend_fake(
    held: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float
) -> tuple[Tensor, Tensor]:
    return _empty(held, heads * len(tables))


@torch.library.impl(LIBRARY, "windows_back", "CompositeExplicitAutograd")
def _attend_back(
    gradient: Tensor, held: list[Tensor], tables: list[Tensor], taps: list[Tensor], merged: Tensor, sums: Tensor,
    numbers: list[int], heads: int, scale: float,
) -> list[Tensor]:  # fmt: skip
    """The gradients of held, tables and taps, one behind the other; those of queries, keys and values lie as these."""
    from patchword.kernels.window_launch_backward import backward

    found = [room(part, part.shape) for part in (*held, *tables, *taps)]
    held, tables, taps, gradient = _lying_alike(held), _packed(tables), _turned(taps), gradient.contiguous()
    three, back = (held * 3, found[:1] * 3) if len(held) == 1 else (held, found[:3])
    of_tables, of_taps = found[len(held) :][: len(tables)], found[len(held) + len(tables) :]
    with _on(merged):
        plans = backward(_call(held, tables, taps, numbers, heads, scale))
        means = room(sums, sums.shape) if any(plan.keys for plan in plans) else sums
        for plan, *own in zip(plans, tables, taps, of_tables, of_taps, strict=True):
            _run_back(plan, three, own, merged, gradient, sums, means, back)
    return found


def _run_back(
    plan: "Back", three: list[Tensor], own: list[Tensor], merged: Tensor, gradient: Tensor, sums: Tensor,
    means: Tensor, back: list[Tensor],
) -> None:  # fmt: skip
    """own: the table, the taps, and where their gradients are written"""
    table, tap, to_table, to_taps = own
    biases = room(sums, plan.table.parts) if plan.table else sums
    if plan.keys is None:
        plan.main(*three, table, tap, gradient, sums, *back, biases)
    else:
        plan.main(*three, table, tap, merged, gradient, sums, means, back[0])
        plan.keys(*three, table, tap, gradient, sums, means, *back[1:])
        if plan.table and plan.table.biases:
            plan.table.biases(*three, table, gradient, sums, means, biases)
    if plan.table:
        plan.table.fold(biases, to_table)
    if plan.taps:
        parts = room(sums, plan.taps.parts)
        plan.taps.main(three[2], gradient, parts)
        plan.taps.total(parts, to_taps)


@torch.library.register_fake("patchword::windows_back", lib=LIBRARY)  # type: ignore[untyped-decorator]
def _(
    gradient: Tensor, held: list[Tensor], tables: list[Tensor], taps: list[Tensor], merged: Tensor, sums: Tensor,
    numbers: list[int], heads: int, scale: float,
) -> list[Tensor]:  # fmt: skip
    return [room(part, part.shape) for part in (*held, *tables, *taps)]


def _call(
    held: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float
) -> "Call":
    from patchword.kernels.window_launch import Call

    first = held[0]
    of_tables, of_taps = (tuple([part.dtype if part.numel() else None for part in parts]) for parts in (tables, taps))
    shape, strides, joint, device = first.shape, first.stride(), len(held) == 1, first.get_device()
    return Call(tuple(numbers), heads, scale, shape, strides, joint, first.dtype, of_tables, of_taps, device)


def _lying_alike(held: list[Tensor]) -> list[Tensor]:
    """Channels of a token lie side by side, and tokens of queries, keys and values at the same distances."""
    strides = held[0].stride()
    if strides[-1] == 1 and (len(held) == 1 or strides == held[1].stride() == held[2].stride()):
        return held
    return [part.contiguous() for part in held]


def _packed(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.contiguous() for tensor in tensors]


def _turned(taps: list[Tensor]) -> list[Tensor]:
    """(channels, 10) -> (10, channels), so that a program reads channels that lie side by side"""
    return [tap.t().contiguous() if tap.numel() else tap for tap in taps]


def _empty(held: list[Tensor], heads: int) -> tuple[Tensor, Tensor]:
    batch, tokens, width = held[0].shape
    merged = room(held[0], (batch, tokens, width // 3 if len(held) == 1 else width))
    return merged, room(held[0], (batch, heads, tokens), torch.float32)


def room(like: Tensor, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    """memory that a kernel writes"""
    return like.new_empty(shape, dtype=dtype)


def _on(tensor: Tensor) -> AbstractContextManager[object]:
    """kernels are sent to the GPU that holds the tensors"""
    elsewhere = tensor.is_cuda and tensor.get_device() != torch.cuda.current_device()
    return torch.cuda.device(tensor.device) if elsewhere else nullcontext()
