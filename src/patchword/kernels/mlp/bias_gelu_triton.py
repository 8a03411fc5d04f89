# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""gelu(inputs + bias), and both gradients in one pass. Reference: bias_gelu_reference.

A program has a block of columns. The kernels are bound by memory, so that each program loads many rows at a time.
Import it only where Triton is installed.
"""

import math

import triton
import triton.language as tl

from patchword.kernels.mlp.gelu_triton import activation, normal_tail

_DENSITY_SCALE = tl.constexpr(1 / math.sqrt(2 * math.pi))  # of the normal distribution
_DENSITY_EXPONENT = tl.constexpr(-0.5 * math.log2(math.e))


@triton.jit(do_not_specialize=["count"])
def forward_kernel(inputs, bias, output, count, hidden: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr):
    start, column = tl.program_id(0).to(tl.int64) * rows, tl.program_id(1) * columns + tl.arange(0, columns)
    row = tl.arange(0, rows)
    offsets, valid = start * hidden + row[:, None] * hidden + column[None, :], (row < count - start)[:, None]
    x = tl.load(inputs + offsets, mask=valid, other=0.0).to(tl.float32)
    x += tl.load(bias + column).to(tl.float32)[None, :]
    tl.store(output + offsets, activation(x, "gelu"), mask=valid)


@triton.jit(do_not_specialize=["count", "span"])
def backward_kernel(
    grad_output, inputs, bias, grad_inputs, bias_grads, count, span,
    hidden: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    """span: rows per program. bias_grads: (programs, hidden), the column sums of each program"""
    column, row = tl.program_id(1) * columns + tl.arange(0, columns), tl.arange(0, rows)
    bias_row = tl.load(bias + column).to(tl.float32)[None, :]
    total = tl.zeros((rows, columns), tl.float32)
    begin = tl.program_id(0).to(tl.int64) * span
    for step in range(0, span, rows):
        first_row = begin + step
        offsets = first_row * hidden + row[:, None] * hidden + column[None, :]
        valid = ((row < count - first_row) & (row < span - step))[:, None]
        grad = tl.load(grad_output + offsets, mask=valid, other=0.0).to(tl.float32)
        x = tl.load(inputs + offsets, mask=valid, other=0.0).to(tl.float32) + bias_row
        tail = normal_tail(tl.abs(x))
        grad *= tl.where(x < 0, tail, 1 - tail) + x * _DENSITY_SCALE * tl.exp2(x * x * _DENSITY_EXPONENT)
        tl.store(grad_inputs + offsets, grad, mask=valid)
        total += grad
    tl.store(bias_grads + tl.program_id(0) * hidden + column, tl.sum(total, 0))
