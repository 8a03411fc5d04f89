# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""x + down(gelu(up(norm(x)))) in one kernel: the hidden activations stay on the chip.

Reference: fused_mlp_reference.

A program takes some rows and walks over the hidden channels, a chunk at a time: its share of up, GELU, its share of
down. What it shares with other kernels is in norm_triton.

Only to be imported where Triton is installed.
"""

import triton
import triton.language as tl

from patchword.kernels.common.norm_triton import normed, product, read
from patchword.kernels.mlp.gelu_triton import activation


@triton.jit
def _finish(tokens, answer, total, bias, row, column, width, there):
    """The residual is read once more, as other bytes to the compiler, which else would hold it in registers."""
    whole = total + tl.load(bias + column).to(tl.float32)[None, :]
    whole += read(tokens, row, column, width, there, "").to(tl.float32)
    tl.store(answer + row[:, None] * width + column[None, :], whole, mask=there[:, None])


@triton.jit(do_not_specialize=["count"])
def streamed(
    tokens, scale, shift, up, up_bias, down, down_bias, answer, count, eps,
    first: tl.constexpr, second: tl.constexpr, hidden: tl.constexpr,
    rows: tl.constexpr, chunk: tl.constexpr, form: tl.constexpr,
):  # fmt: skip
    """Both matrices pass by, once for each tile of rows. first + second is the width."""
    width: tl.constexpr = first + second
    row, column, other = tl.arange(0, rows), tl.arange(0, first), first + tl.arange(0, second)
    start = tl.program_id(0).to(tl.int64) * rows
    tokens, answer, there = tokens + start * width, answer + start * width, row < count - start
    x, z = normed(tokens, scale, shift, row, column, other, width, there, eps)
    x, z = x.to(up.dtype.element_ty), z.to(up.dtype.element_ty)
    total, more = tl.zeros((rows, first), tl.float32), tl.zeros((rows, second), tl.float32)
    for begin in range(0, hidden, chunk):
        inner = begin + tl.arange(0, chunk)
        between = product(x, tl.load(up + column[:, None] + inner[None, :] * width), None)
        between = product(z, tl.load(up + other[:, None] + inner[None, :] * width), between)
        between = activation(between + tl.load(up_bias + inner).to(tl.float32)[None, :], form).to(x.dtype)
        total = product(between, tl.load(down + inner[:, None] + column[None, :] * hidden), total)
        more = product(between, tl.load(down + inner[:, None] + other[None, :] * hidden), more)
    _finish(tokens, answer, total, down_bias, row, column, width, there)
    _finish(tokens, answer, more, down_bias, row, other, width, there)


@triton.jit(do_not_specialize=["count"])
def resident(
    tokens, scale, shift, up, up_bias, down, down_bias, answer, count, eps,
    first: tl.constexpr, second: tl.constexpr, hidden: tl.constexpr,
    rows: tl.constexpr, chunk: tl.constexpr, form: tl.constexpr,
):  # fmt: skip
    """Both matrices are small enough to stay in shared memory, while a program walks over tiles of rows."""
    width: tl.constexpr = first + second
    row, column, other = tl.arange(0, rows), tl.arange(0, first), first + tl.arange(0, second)
    ups, downs = (), ()
    for part in tl.static_range(hidden // chunk):
        inner = part * chunk + tl.arange(0, chunk)
        ups += (tl.load(up + column[:, None] + inner[None, :] * width),)
        ups += (tl.load(up + other[:, None] + inner[None, :] * width),)
        downs += (tl.load(down + inner[:, None] + column[None, :] * hidden),)
        downs += (tl.load(down + inner[:, None] + other[None, :] * hidden),)
    for tile in range(tl.program_id(0), tl.cdiv(count, rows), tl.num_programs(0)):
        start = tl.full((), rows, tl.int64) * tile
        place, there = tokens + start * width, row < count - start
        x, z = normed(place, scale, shift, row, column, other, width, there, eps)
        x, z = x.to(up.dtype.element_ty), z.to(up.dtype.element_ty)
        total, more = tl.zeros((rows, first), tl.float32), tl.zeros((rows, second), tl.float32)
        for part in tl.static_range(hidden // chunk):
            bias = tl.load(up_bias + part * chunk + tl.arange(0, chunk)).to(tl.float32)
            between = product(z, ups[2 * part + 1], product(x, ups[2 * part], None))
            between = activation(between + bias[None, :], form).to(x.dtype)
            total = product(between, downs[2 * part], total)
            more = product(between, downs[2 * part + 1], more)
        _finish(place, answer + start * width, total, down_bias, row, column, width, there)
        _finish(place, answer + start * width, more, down_bias, row, other, width, there)
