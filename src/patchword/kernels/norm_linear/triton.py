# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Linear layers on narrow tokens, fused with the LayerNorm before them or the residual sum after them.

References: layer_norm_linear_reference, linear_residual_reference.

A program takes some rows, which it reads once, and walks over the columns of the answer, a chunk at a time. Like the
width, a chunk is the sum of two powers of two, the second of which may be 0. The matrix is held in shared memory, while
a program walks over tiles of rows.

Only to be imported where Triton is installed.
"""

import triton
import triton.language as tl

from patchword.kernels.common.norm_triton import normed, product, read


@triton.jit
def _columns(matrix, column, other, begin, width, size: tl.constexpr):
    """a chunk of the matrix, in the two parts of the width"""
    place = (begin + tl.arange(0, size))[None, :] * width
    return tl.load(matrix + column[:, None] + place), tl.load(matrix + other[:, None] + place)


@triton.jit
def _held(matrix, column, other, width, outputs: tl.constexpr, main: tl.constexpr, rest: tl.constexpr):
    """all chunks"""
    chunks = ()
    for part in tl.static_range(outputs // (main + rest)):
        chunks += (_columns(matrix, column, other, part * (main + rest), width, main),)
        if rest > 0:
            chunks += (_columns(matrix, column, other, part * (main + rest) + main, width, rest),)
    return chunks


@triton.jit
def _before(tokens, row, there, begin, outputs: tl.constexpr, size: tl.constexpr):
    """What a chunk of the answer is added to, which is on its way while the product is computed; or nothing"""
    return () if tokens is None else (read(tokens, row, begin + tl.arange(0, size), outputs, there, ".cg"),)


@triton.jit
def _chunk(x, z, chunk, onto, bias, answer, row, there, begin, outputs: tl.constexpr, size: tl.constexpr):
    """a chunk of the answer"""
    column = begin + tl.arange(0, size)
    total = product(z, chunk[1], product(x, chunk[0], None))
    if bias is not None:
        total += tl.load(bias + column).to(tl.float32)[None, :]
    if len(onto) > 0:
        total += onto[0].to(tl.float32)
    tl.store(answer + row[:, None] * outputs + column[None, :], total.to(answer.dtype.element_ty), mask=there[:, None])


@triton.jit
def _tile(
    x, z, tokens, chunks, bias, answer, row, there, outputs: tl.constexpr, main: tl.constexpr, rest: tl.constexpr
):
    """all chunks of a tile of rows; all that is added to is on its way at once"""
    step: tl.constexpr = main + rest
    each: tl.constexpr = 2 if rest > 0 else 1
    ontos = ()
    for part in tl.static_range(outputs // step):
        ontos += (_before(tokens, row, there, part * step, outputs, main),)
        if rest > 0:
            ontos += (_before(tokens, row, there, part * step + main, outputs, rest),)
    for part in tl.static_range(outputs // step):
        begin = part * step
        _chunk(x, z, chunks[each * part], ontos[each * part], bias, answer, row, there, begin, outputs, main)
        if rest > 0:
            begin += main
            _chunk(x, z, chunks[2 * part + 1], ontos[2 * part + 1], bias, answer, row, there, begin, outputs, rest)


@triton.jit(do_not_specialize=["count"])
def layer_norm_linear(
    tokens, scale, shift, matrix, bias, answer, count, eps,
    first: tl.constexpr, second: tl.constexpr, outputs: tl.constexpr,
    rows: tl.constexpr, main: tl.constexpr, rest: tl.constexpr,
):  # fmt: skip
    """norm(tokens) @ matrix' + bias; first + second is the width."""
    width: tl.constexpr = first + second
    row, column, other = tl.arange(0, rows), tl.arange(0, first), first + tl.arange(0, second)
    chunks = _held(matrix, column, other, width, outputs, main, rest)
    for tile in range(tl.program_id(0), tl.cdiv(count, rows), tl.num_programs(0)):
        start = tl.full((), rows, tl.int64) * tile
        there, place = row < count - start, answer + start * outputs
        x, z = normed(tokens + start * width, scale, shift, row, column, other, width, there, eps)
        x, z = x.to(matrix.dtype.element_ty), z.to(matrix.dtype.element_ty)
        _tile(x, z, None, chunks, bias, place, row, there, outputs, main, rest)


@triton.jit(do_not_specialize=["count"])
def linear_residual(
    tokens, branch, matrix, bias, answer, count,
    first: tl.constexpr, second: tl.constexpr, outputs: tl.constexpr,
    rows: tl.constexpr, main: tl.constexpr, rest: tl.constexpr,
):  # fmt: skip
    """tokens + branch @ matrix' + bias; first + second is the width of the branch."""
    width: tl.constexpr = first + second
    row, column, other = tl.arange(0, rows), tl.arange(0, first), first + tl.arange(0, second)
    chunks = _held(matrix, column, other, width, outputs, main, rest)
    for tile in range(tl.program_id(0), tl.cdiv(count, rows), tl.num_programs(0)):
        start = tl.full((), rows, tl.int64) * tile
        there, place, onto = row < count - start, answer + start * outputs, tokens + start * outputs
        x = read(branch + start * width, row, column, width, there, ".cg")
        z = read(branch + start * width, row, other, width, there, ".cg")
        _tile(x, z, onto, chunks, bias, place, row, there, outputs, main, rest)
