# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""x + down(gelu(up(norm(x)))) in one kernel: the hidden activations stay on the chip.

Reference: fused_mlp_reference.

A program has a tile of rows and loops over chunks of the hidden channels: it multiplies with a chunk of `up`, applies
GELU, and multiplies with a chunk of `down`. norm_triton has the functions that other kernels use, too. The width is the
sum of two powers of two, first + second.

Import it only where Triton is installed.
"""

import triton
import triton.language as tl

from patchword.kernels.common.norm_triton import normed, product, read
from patchword.kernels.mlp.gelu_triton import activation


@triton.jit
def _store_output(tokens, output, total, bias, row, column, width, valid):
    """Adds the bias and the residual, which is loaded again: otherwise the compiler would keep it in registers."""
    summed = total + tl.load(bias + column).to(tl.float32)[None, :]
    summed += read(tokens, row, column, width, valid, "").to(tl.float32)
    tl.store(output + row[:, None] * width + column[None, :], summed, mask=valid[:, None])


@triton.jit(do_not_specialize=["count"])
def streamed(
    tokens, scale, shift, up, up_bias, down, down_bias, output, count, eps,
    first: tl.constexpr, second: tl.constexpr, hidden: tl.constexpr,
    rows: tl.constexpr, chunk: tl.constexpr, form: tl.constexpr,
):  # fmt: skip
    """Loads both matrices once per tile of rows."""
    width: tl.constexpr = first + second
    row, column, other = tl.arange(0, rows), tl.arange(0, first), first + tl.arange(0, second)
    start = tl.program_id(0).to(tl.int64) * rows
    tokens, output, valid = tokens + start * width, output + start * width, row < count - start
    x, z = normed(tokens, scale, shift, row, column, other, width, valid, eps)
    x, z = x.to(up.dtype.element_ty), z.to(up.dtype.element_ty)
    total, other_total = tl.zeros((rows, first), tl.float32), tl.zeros((rows, second), tl.float32)
    for begin in range(0, hidden, chunk):
        inner = begin + tl.arange(0, chunk)
        activated = product(x, tl.load(up + column[:, None] + inner[None, :] * width), None)
        activated = product(z, tl.load(up + other[:, None] + inner[None, :] * width), activated)
        activated = activation(activated + tl.load(up_bias + inner).to(tl.float32)[None, :], form).to(x.dtype)
        total = product(activated, tl.load(down + inner[:, None] + column[None, :] * hidden), total)
        other_total = product(activated, tl.load(down + inner[:, None] + other[None, :] * hidden), other_total)
    _store_output(tokens, output, total, down_bias, row, column, width, valid)
    _store_output(tokens, output, other_total, down_bias, row, other, width, valid)


@triton.jit(do_not_specialize=["count"])
def resident(
    tokens, scale, shift, up, up_bias, down, down_bias, output, count, eps,
    first: tl.constexpr, second: tl.constexpr, hidden: tl.constexpr,
    rows: tl.constexpr, chunk: tl.constexpr, form: tl.constexpr,
):  # fmt: skip
    """Keeps both matrices in shared memory, while a program loops over tiles of rows."""
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
        tile_tokens, valid = tokens + start * width, row < count - start
        x, z = normed(tile_tokens, scale, shift, row, column, other, width, valid, eps)
        x, z = x.to(up.dtype.element_ty), z.to(up.dtype.element_ty)
        total, other_total = tl.zeros((rows, first), tl.float32), tl.zeros((rows, second), tl.float32)
        for part in tl.static_range(hidden // chunk):
            bias = tl.load(up_bias + part * chunk + tl.arange(0, chunk)).to(tl.float32)
            activated = product(z, ups[2 * part + 1], product(x, ups[2 * part], None))
            activated = activation(activated + bias[None, :], form).to(x.dtype)
            total = product(activated, downs[2 * part], total)
            other_total = product(activated, downs[2 * part + 1], other_total)
        _store_output(tile_tokens, output + start * width, total, down_bias, row, column, width, valid)
        _store_output(tile_tokens, output + start * width, other_total, down_bias, row, other, width, valid)
