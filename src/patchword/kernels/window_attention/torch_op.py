"""Window attention and its backward pass as two operations of torch, which compiled models run.

The arguments of an operation are lists of tensors and numbers, so a missing table or convolution is an empty tensor
here. `taps` has two tensors per head group, the weight and bias of its convolution. The operations have no autograd
rule (autograd.py has it), so that a call costs no more than one step through torch's dispatcher.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from patchword.kernels.window_attention.launch import Call
    from patchword.kernels.window_attention.launch_backward import BackwardLaunches

# Not torch.library.custom_op: calling such an operation takes twice as long.
LIBRARY = torch.library.Library("patchword", "FRAGMENT")
GIVEN, NUMBERS = (
    "Tensor[] qkv, Tensor[] tables, Tensor[] taps",
    ("SymInt[] numbers, SymInt heads, float scale, Tensor? seeds=None, float rate=0.0"),
)
TAGS = (torch.Tag.pt2_compliant_tag,)
LIBRARY.define(f"window_attention_forward({GIVEN}, {NUMBERS}) -> (Tensor, Tensor)", tags=TAGS)
_BEFORE = f"Tensor gradient, {GIVEN}, Tensor output, Tensor logsumexp, {NUMBERS}"
LIBRARY.define(f"window_attention_back({_BEFORE}) -> Tensor[]", tags=TAGS)
window_attention_forward = torch.ops.patchword.window_attention_forward.default
window_attention_backward = torch.ops.patchword.window_attention_back.default


@torch.library.impl(LIBRARY, "window_attention_forward", "CompositeExplicitAutograd")
def attend(
    qkv: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float,
    seeds: Tensor | None = None, rate: float = 0.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Returns the output (batch, tokens, width) and the log-sum-exp (batch, heads of all groups, tokens)."""
    from patchword.kernels.window_attention.launch import forward

    qkv, tables, taps = _with_equal_strides(qkv), _contiguous(tables), _contiguous(taps)
    output, logsumexp = _empty(qkv, heads * len(tables))
    if not output.numel():
        return output, logsumexp
    qkv_parts = qkv * 3 if len(qkv) == 1 else qkv
    with on_device(output):
        all_launches = forward(_call(qkv, tables, taps, numbers, heads, scale, rate))
        seeds_or_dummy = logsumexp if seeds is None else seeds
        for launches, table, *own in zip(all_launches, tables, taps[::2], taps[1::2], strict=True):
            launches.main(*qkv_parts, table, output, logsumexp, *((seeds_or_dummy,) if launches.single_tile else ()))
            if launches.local:
                launches.local(qkv_parts[2], *own, output, output)
    return output, logsumexp


def attend_fake(
    qkv: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float,
    seeds: Tensor | None = None, rate: float = 0.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return _empty(qkv, heads * len(tables))


torch.library.register_fake("patchword::window_attention_forward", attend_fake, lib=LIBRARY)


@torch.library.impl(LIBRARY, "window_attention_back", "CompositeExplicitAutograd")
def _attend_back(
    gradient: Tensor, qkv: list[Tensor], tables: list[Tensor], taps: list[Tensor], output: Tensor, logsumexp: Tensor,
    numbers: list[int], heads: int, scale: float, seeds: Tensor | None = None, rate: float = 0.0,
) -> list[Tensor]:  # fmt: skip
    """Returns the gradients of qkv, tables and taps in one list; those of qkv have its layout."""
    from patchword.kernels.window_attention.launch_backward import backward

    found = [allocate(part, part.shape) for part in (*qkv, *tables, *taps)]
    if not output.numel():
        return [part.zero_() for part in found]
    qkv, gradient = _with_equal_strides(qkv), gradient.contiguous()
    tables, taps = _contiguous(tables), _contiguous(taps)
    qkv_parts, back = (qkv * 3, found[:1] * 3) if len(qkv) == 1 else (qkv, found[:3])
    of_tables, of_taps = found[len(qkv) :][: len(tables)], found[len(qkv) + len(tables) :]
    with on_device(output):
        all_launches = backward(_call(qkv, tables, taps, numbers, heads, scale, rate))
        seeds_or_dummy = logsumexp if seeds is None else seeds
        delta = allocate(logsumexp, logsumexp.shape) if any(launches.keys for launches in all_launches) else logsumexp
        for launches, table, grad_table in zip(all_launches, tables, of_tables, strict=True):
            _attention_back(
                launches, qkv_parts, table, grad_table, output, gradient, logsumexp, delta, back, seeds_or_dummy
            )
        for number, launches in enumerate(all_launches):
            if launches.local:
                own, to_own = (parts[2 * number : 2 * number + 2] for parts in (taps, of_taps))
                launches.local.values(gradient, *own, back[-1], back[-1])
                parts = allocate(logsumexp, launches.local.taps.parts)
                launches.local.taps.main(qkv_parts[2], gradient, parts)
                launches.local.taps.total(parts, *to_own)
    return found


def _attention_back(
    launches: "BackwardLaunches", qkv_parts: list[Tensor], table: Tensor, grad_table: Tensor, output: Tensor,
    gradient: Tensor, logsumexp: Tensor, delta: Tensor, back: list[Tensor], seeds: Tensor,
) -> None:  # fmt: skip
    biases = allocate(logsumexp, launches.table.parts) if launches.table else logsumexp
    if launches.keys is None:
        launches.main(*qkv_parts, table, gradient, logsumexp, *back, biases, seeds)
    else:
        launches.main(*qkv_parts, table, output, gradient, logsumexp, delta, back[0])
        launches.keys(*qkv_parts, table, gradient, logsumexp, delta, *back[1:])
        if launches.table and launches.table.biases:
            launches.table.biases(*qkv_parts, table, gradient, logsumexp, delta, biases)
    if launches.table:
        launches.table.reduce(biases, grad_table)


def _back_fake(
    gradient: Tensor, qkv: list[Tensor], tables: list[Tensor], taps: list[Tensor], output: Tensor, logsumexp: Tensor,
    numbers: list[int], heads: int, scale: float, seeds: Tensor | None = None, rate: float = 0.0,
) -> list[Tensor]:  # fmt: skip
    return [allocate(part, part.shape) for part in (*qkv, *tables, *taps)]


torch.library.register_fake("patchword::window_attention_back", _back_fake, lib=LIBRARY)


def _call(
    qkv: list[Tensor], tables: list[Tensor], taps: list[Tensor], numbers: list[int], heads: int, scale: float,
    rate: float,
) -> "Call":  # fmt: skip
    from patchword.kernels.window_attention.launch import Call

    first = qkv[0]
    of_tables, of_taps = (tuple([part.dtype if part.numel() else None for part in parts]) for parts in (tables, taps))
    shape, strides, joint, device = first.shape, first.stride(), len(qkv) == 1, first.get_device()
    return Call(tuple(numbers), heads, scale, shape, strides, joint, first.dtype, of_tables, of_taps, device, rate)


def _with_equal_strides(qkv: list[Tensor]) -> list[Tensor]:
    """Makes the channels of a token contiguous, and the strides of queries, keys and values equal."""
    strides = qkv[0].stride()
    if strides[-1] == 1 and (len(qkv) == 1 or strides == qkv[1].stride() == qkv[2].stride()):
        return qkv
    return [part.contiguous() for part in qkv]


def _contiguous(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.contiguous() for tensor in tensors]


def _empty(qkv: list[Tensor], heads: int) -> tuple[Tensor, Tensor]:
    batch, tokens, width = qkv[0].shape
    output = allocate(qkv[0], (batch, tokens, width // 3 if len(qkv) == 1 else width))
    return output, allocate(qkv[0], (batch, heads, tokens), torch.float32)


def allocate(like: Tensor, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    """Allocates memory that a kernel writes."""
    return like.new_empty(shape, dtype=dtype)


def on_device(tensor: Tensor) -> AbstractContextManager[object]:
    """Makes the GPU of the tensor current, because Triton launches kernels on the current one."""
    elsewhere = tensor.is_cuda and tensor.get_device() != torch.cuda.current_device()
    return torch.cuda.device(tensor.device) if elsewhere else nullcontext()
