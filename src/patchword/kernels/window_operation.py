"""Attention inside rectangles as one operation of torch with its gradient, so that a compiled model keeps it whole.

An operation knows lists of tensors and numbers alone, so what a share has not is an empty tensor here.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from patchword.kernels.window_plain import plain_windows, three
from patchword.kernels.window_plan import from_numbers


@torch.library.custom_op("patchword::windows", mutates_args=())
def attend_windows(
    held: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float
) -> tuple[Tensor, Tensor]:
    """The merged tokens, and (batch, heads of all shares, tokens) the logarithms of the sums of exponentials."""
    from patchword.kernels.window_triton import attend

    held, cuts = [_side_by_side(part) for part in held], from_numbers(numbers)
    merged, sums = _empty(held, heads * len(cuts))
    parts, sums_of = _dealt([*three(held), merged], len(cuts)), sums.chunk(len(cuts), 1)
    with _on(merged):
        for number, cut in enumerate(cuts):
            *given, answer = parts[number]
            table, tap = _there(tables[number]), _there(taps[number])
            attend(given, table, tap, answer, sums_of[number], cut, heads, scale)
    return merged, sums


@attend_windows.register_fake
def _(
    held: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float
) -> tuple[Tensor, Tensor]:
    return _empty(held, heads * len(tables))


@torch.library.custom_op("patchword::windows_back", mutates_args=())
def attend_windows_back(
    gradient: Tensor, held: list[Tensor], tables: list[Tensor], taps: list[Tensor], merged: Tensor, sums: Tensor,
    numbers: list[int], heads: int, scale: float,
) -> list[Tensor]:  # fmt: skip
    """The gradients of held, tables and taps, one behind the other; those of queries, keys and values lie as these."""
    from patchword.kernels.window_local import taps_back
    from patchword.kernels.window_triton import processors
    from patchword.kernels.window_triton_backward import attend_back

    held, cuts, gradient = [_side_by_side(part) for part in held], from_numbers(numbers), gradient.contiguous()
    found = [_like(part) for part in (*held, *tables, *taps)]
    parts, sums_of = (
        _dealt([*three(held), *three(found[: len(held)]), merged, gradient], len(cuts)),
        sums.chunk(len(cuts), 1),
    )
    with _on(merged):
        for number, cut in enumerate(cuts):
            given, back, (answer, above) = parts[number][:3], parts[number][3:6], parts[number][6:]
            table, tap = _there(tables[number]), _there(taps[number])
            for_table = attend_back(given, table, tap, answer, above, sums_of[number], back, cut, heads, scale)
            if for_table is not None:
                found[len(held) + number] = for_table
            if tap is not None:
                for_tap = taps_back(given[2], above, tap, cut, heads, processors(merged.device))
                found[len(held) + len(tables) + number] = for_tap
    return found


@attend_windows_back.register_fake
def _(
    gradient: Tensor, held: list[Tensor], tables: list[Tensor], taps: list[Tensor], merged: Tensor, sums: Tensor,
    numbers: list[int], heads: int, scale: float,
) -> list[Tensor]:  # fmt: skip
    return [_like(part) for part in (*held, *tables, *taps)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    held, tables, taps, *ctx.others = inputs
    ctx.counts = len(held), len(tables), len(taps)
    ctx.save_for_backward(*held, *tables, *taps, *output)


def _gradients(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Any, ...]:
    *given, merged, sums = ctx.saved_tensors
    numbers, heads, scale = ctx.others
    lists = _in_lists(given, ctx.counts)
    if torch.is_grad_enabled():  # the gradient's own gradient is wanted
        found = _plain_gradients(gradient, lists, numbers, heads, scale)
    else:
        found = attend_windows_back(gradient, *lists, merged, sums, numbers, heads, scale)
    return *_in_lists(found, ctx.counts), None, None, None


attend_windows.register_autograd(_gradients, setup_context=_keep)


def _plain_gradients(
    gradient: Tensor, lists: list[list[Tensor]], numbers: list[int], heads: int, scale: float
) -> list[Tensor | None]:
    held, tables, taps = lists
    answer = plain_windows(held, tables, taps, from_numbers(numbers), heads, scale)
    given = [tensor for part in lists for tensor in part]
    asked = [tensor for tensor in given if tensor.requires_grad]
    found = iter(torch.autograd.grad(answer, asked, gradient, create_graph=True))
    return [next(found) if tensor.requires_grad else None for tensor in given]


def _in_lists(flat: Sequence[Any], counts: tuple[int, ...]) -> list[list[Any]]:
    each = iter(flat)
    return [[next(each) for _ in range(count)] for count in counts]


def _dealt(tensors: list[Tensor], count: int) -> list[list[Tensor]]:
    """of each share, its channels of every tensor"""
    return [list(part) for part in zip(*(tensor.chunk(count, -1) for tensor in tensors), strict=True)]


def _there(tensor: Tensor) -> Tensor | None:
    return tensor.contiguous() if tensor.numel() else None


def _side_by_side(tensor: Tensor) -> Tensor:
    """channels of a token must; tokens may lie where they want"""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _empty(held: list[Tensor], heads: int) -> tuple[Tensor, Tensor]:
    batch, tokens, width = held[0].shape
    merged = held[0].new_empty(batch, tokens, width // 3 if len(held) == 1 else width)
    return merged, held[0].new_empty(batch, heads, tokens, dtype=torch.float32)


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _on(tensor: Tensor) -> AbstractContextManager[object]:
    """kernels are sent to the GPU that holds the tensors"""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()
