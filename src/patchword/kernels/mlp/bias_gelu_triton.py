# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""A bias and GELU over rows of hidden values, and their gradients in one pass. The reference is bias_gelu_reference.

A program has some columns. What it moves takes longer than what it computes, so that enough must be on its way at a
time. Only to be imported where Triton is installed.
"""

import math

import triton
import triton.language as tl

from patchword.kernels.mlp.gelu_triton import activation, below

_HEIGHT = tl.constexpr(1 / math.sqrt(2 * math.pi))  # of the bell, and how fast it falls
_FALL = tl.constexpr(-0.5 * math.log2(math.e))


@triton.jit(do_not_specialize=["count"])
def forwards(between, bias, answer, count, hidden: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr):
    start, column = tl.program_id(0).to(tl.int64) * rows, tl.program_id(1) * columns + tl.arange(0, columns)
    row = tl.arange(0, rows)
    place, there = start * hidden + row[:, None] * hidden + column[None, :], (row < count - start)[:, None]
    x = tl.load(between + place, mask=there, other=0.0).to(tl.float32)
    x += tl.load(bias + column).to(tl.float32)[None, :]
    tl.store(answer + place, activation(x, "gelu"), mask=there)


@triton.jit(do_not_specialize=["count", "span"])
def backwards(
    gradient, between, bias, to_between, parts, count, span,
    hidden: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    """span: rows that a program walks over. parts: for each program the sums of its columns, for the bias."""
    column, row = tl.program_id(1) * columns + tl.arange(0, columns), tl.arange(0, rows)
    added = tl.load(bias + column).to(tl.float32)[None, :]
    total = tl.zeros((rows, columns), tl.float32)
    begin = tl.program_id(0).to(tl.int64) * span
    for step in range(0, span, rows):
        at = begin + step
        place = at * hidden + row[:, None] * hidden + column[None, :]
        there = ((row < count - at) & (row < span - step))[:, None]
        slope = tl.load(gradient + place, mask=there, other=0.0).to(tl.float32)
        x = tl.load(between + place, mask=there, other=0.0).to(tl.float32) + added
        rare = below(tl.abs(x))
        slope *= tl.where(x < 0, rare, 1 - rare) + x * _HEIGHT * tl.exp2(x * x * _FALL)
        tl.store(to_between + place, slope, mask=there)
        total += slope
    tl.store(parts + tl.program_id(0) * hidden + column, tl.sum(total, 0))
