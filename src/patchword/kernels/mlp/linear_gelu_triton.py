# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""A matrix product with a bias and an activation as its epilogue. Reference: linear_gelu_reference.

Import it only where Triton is installed.
"""

import triton
import triton.language as tl

from patchword.kernels.mlp.gelu_triton import activation


@triton.jit(do_not_specialize=["count"])
def linear_gelu_kernel(
    tokens, up, bias, output, count, width: tl.constexpr, hidden: tl.constexpr,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr, form: tl.constexpr,
):  # fmt: skip
    """Consecutive programs compute all column tiles of the same rows, so that programs that run together share them."""
    column_tiles: tl.constexpr = hidden // columns
    start = (tl.program_id(0) // column_tiles).to(tl.int64) * rows
    column = tl.program_id(0) % column_tiles * columns + tl.arange(0, columns)
    row, inner = tl.arange(0, rows), tl.arange(0, depth)
    valid = row < count - start
    row_pointers = tokens + start * width + tl.where(valid, row, 0)[:, None] * width
    total = tl.zeros((rows, columns), tl.float32)
    for begin in range(0, width, depth):
        x = tl.load(row_pointers + (begin + inner)[None, :])
        matrix = tl.load(up + (begin + inner)[:, None] + column[None, :] * width)
        total = tl.dot(x, matrix, total, input_precision="ieee")
    activated = activation(total + tl.load(bias + column).to(tl.float32)[None, :], form)
    tl.store(output + start * hidden + row[:, None] * hidden + column[None, :], activated, mask=valid[:, None])
