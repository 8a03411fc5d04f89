# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""A product that ends in bias and GELU, for feed-forwards that are too wide for one kernel: does it beat cuBLAS and a
GELU of its own? An experiment of `python benchmarks/feed_forward.py`."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchword.kernels.feed_forward_forms import activation


class Choice(NamedTuple):
    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


CHOICES = (
    Choice(128, 256, 64, 8, 3),
    Choice(128, 128, 64, 8, 3),
    Choice(128, 256, 64, 8, 4),
    Choice(256, 128, 64, 8, 3),
)


@triton.jit
def _apply(points, answer, count, tile: tl.constexpr):
    place = tl.program_id(0) * tile + tl.arange(0, tile)
    x = tl.load(points + place, mask=place < count, other=0.0)
    tl.store(answer + place, activation(x, "gelu"), mask=place < count)


def gelu_of(points: Tensor) -> Tensor:
    answer = torch.empty_like(points)
    _apply[(triton.cdiv(len(points), 1024),)](points, answer, len(points), 1024)
    return answer


@triton.jit
def _raise(
    tokens, up, bias, answer, count, width: tl.constexpr, hidden: tl.constexpr,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    """Programs that run together share their rows: all columns of a tile of rows come one behind the other."""
    across: tl.constexpr = hidden // columns
    start = (tl.program_id(0) // across).to(tl.int64) * rows
    column = tl.program_id(0) % across * columns + tl.arange(0, columns)
    row, inner = tl.arange(0, rows), tl.arange(0, depth)
    there = row < count - start
    held = tokens + start * width + tl.where(there, row, 0)[:, None] * width
    total = tl.zeros((rows, columns), tl.float32)
    for begin in range(0, width, depth):
        x = tl.load(held + (begin + inner)[None, :])
        total = tl.dot(x, tl.load(up + (begin + inner)[:, None] + column[None, :] * width), total)
    raised = activation(total + tl.load(bias + column).to(tl.float32)[None, :], "gelu")
    tl.store(answer + start * hidden + row[:, None] * hidden + column[None, :], raised, mask=there[:, None])


def raised(tokens: Tensor, up: Tensor, bias: Tensor, choice: Choice) -> Tensor:
    (count, width), hidden = tokens.shape, len(up)
    answer = tokens.new_empty(count, hidden)
    programs = triton.cdiv(count, choice.rows) * (hidden // choice.columns)
    given = (tokens, up, bias, answer, count, width, hidden, *choice[:3])
    _raise[(programs,)](*given, num_warps=choice.warps, num_stages=choice.stages)
    return answer
