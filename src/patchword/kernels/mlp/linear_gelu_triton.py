# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""A matrix product with a bias and an activation as its epilogue. Imports Triton. Reference: linear_gelu_reference."""

import triton
import triton.language as tl

from patchword.kernels.mlp.gelu_triton import activation


@triton.jit(do_not_specialize=["count"])
def linear_gelu_kernel(
    tokens, up, bias, answer, count, width: tl.constexpr, hidden: tl.constexpr,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr, form: tl.constexpr,
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
        matrix = tl.load(up + (begin + inner)[:, None] + column[None, :] * width)
        total = tl.dot(x, matrix, total, input_precision="ieee")
    linear_gelu = activation(total + tl.load(bias + column).to(tl.float32)[None, :], form)
    tl.store(answer + start * hidden + row[:, None] * hidden + column[None, :], linear_gelu, mask=there[:, None])
