# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Linear layers on narrow tokens, fused with the LayerNorm before them or the residual sum after them.

References: layer_norm_linear_reference, linear_residual_reference.

A program loads a tile of rows once and loops over chunks of the output columns. Like the width (first + second), a
chunk is the sum of two powers of two (main + rest), the second of which may be 0. The matrix stays in shared memory,
while a program loops over tiles of rows.

Import it only where Triton is installed.
"""

import triton
import triton.language as tl

from patchword.kernels.common.norm_triton import normed, product, read


@triton.jit
def _load_chunk(matrix, column, other, begin, width, size: tl.constexpr):
    """Loads a chunk of the matrix, in the two parts of the width."""
    tile_output = (begin + tl.arange(0, size))[None, :] * width
    return tl.load(matrix + column[:, None] + tile_output), tl.load(matrix + other[:, None] + tile_output)


@triton.jit
def _load_matrix(matrix, column, other, width, outputs: tl.constexpr, main: tl.constexpr, rest: tl.constexpr):
    """Loads all chunks of the matrix."""
    chunks = ()
    for part in tl.static_range(outputs // (main + rest)):
        chunks += (_load_chunk(matrix, column, other, part * (main + rest), width, main),)
        if rest > 0:
            chunks += (_load_chunk(matrix, column, other, part * (main + rest) + main, width, rest),)
    return chunks


@triton.jit
def _load_residual(tokens, row, valid, begin, outputs: tl.constexpr, size: tl.constexpr):
    """Loads the residual of a chunk of the output, or returns () if there is none."""
    return () if tokens is None else (read(tokens, row, begin + tl.arange(0, size), outputs, valid, ".cg"),)


@triton.jit
def _store_chunk(x, z, chunk, residual, bias, output, row, valid, begin, outputs: tl.constexpr, size: tl.constexpr):
    """Computes and stores a chunk of the output."""
    column = begin + tl.arange(0, size)
    total = product(z, chunk[1], product(x, chunk[0], None))
    if bias is not None:
        total += tl.load(bias + column).to(tl.float32)[None, :]
    if len(residual) > 0:
        total += residual[0].to(tl.float32)
    tl.store(output + row[:, None] * outputs + column[None, :], total.to(output.dtype.element_ty), mask=valid[:, None])


@triton.jit
def _multiply_tile(
    x, z, tokens, chunks, bias, output, row, valid, outputs: tl.constexpr, main: tl.constexpr, rest: tl.constexpr
):
    """Computes all chunks of a tile of rows. All residuals are loaded before, while the products are computed."""
    step: tl.constexpr = main + rest
    chunks_per_step: tl.constexpr = 2 if rest > 0 else 1
    residuals = ()
    for part in tl.static_range(outputs // step):
        residuals += (_load_residual(tokens, row, valid, part * step, outputs, main),)
        if rest > 0:
            residuals += (_load_residual(tokens, row, valid, part * step + main, outputs, rest),)
    for part in tl.static_range(outputs // step):
        begin = part * step
        _store_chunk(
            x,
            z,
            chunks[chunks_per_step * part],
            residuals[chunks_per_step * part],
            bias,
            output,
            row,
            valid,
            begin,
            outputs,
            main,
        )
        if rest > 0:
            begin += main
            _store_chunk(
                x, z, chunks[2 * part + 1], residuals[2 * part + 1], bias, output, row, valid, begin, outputs, rest
            )


@triton.jit(do_not_specialize=["count"])
def layer_norm_linear(
    tokens, scale, shift, matrix, bias, output, count, eps,
    first: tl.constexpr, second: tl.constexpr, outputs: tl.constexpr,
    rows: tl.constexpr, main: tl.constexpr, rest: tl.constexpr,
):  # fmt: skip
    """Computes norm(tokens) @ matrix' + bias. first + second: the width"""
    width: tl.constexpr = first + second
    row, column, other = tl.arange(0, rows), tl.arange(0, first), first + tl.arange(0, second)
    chunks = _load_matrix(matrix, column, other, width, outputs, main, rest)
    for tile in range(tl.program_id(0), tl.cdiv(count, rows), tl.num_programs(0)):
        start = tl.full((), rows, tl.int64) * tile
        valid, tile_output = row < count - start, output + start * outputs
        x, z = normed(tokens + start * width, scale, shift, row, column, other, width, valid, eps)
        x, z = x.to(matrix.dtype.element_ty), z.to(matrix.dtype.element_ty)
        _multiply_tile(x, z, None, chunks, bias, tile_output, row, valid, outputs, main, rest)


@triton.jit(do_not_specialize=["count"])
def linear_residual(
    tokens, branch, matrix, bias, output, count,
    first: tl.constexpr, second: tl.constexpr, outputs: tl.constexpr,
    rows: tl.constexpr, main: tl.constexpr, rest: tl.constexpr,
):  # fmt: skip
    """Computes tokens + branch @ matrix' + bias. first + second: the width of the branch"""
    width: tl.constexpr = first + second
    row, column, other = tl.arange(0, rows), tl.arange(0, first), first + tl.arange(0, second)
    chunks = _load_matrix(matrix, column, other, width, outputs, main, rest)
    for tile in range(tl.program_id(0), tl.cdiv(count, rows), tl.num_programs(0)):
        start = tl.full((), rows, tl.int64) * tile
        valid, tile_output, residual = row < count - start, output + start * outputs, tokens + start * outputs
        x = read(branch + start * width, row, column, width, valid, ".cg")
        z = read(branch + start * width, row, other, width, valid, ".cg")
        _multiply_tile(x, z, residual, chunks, bias, tile_output, row, valid, outputs, main, rest)
