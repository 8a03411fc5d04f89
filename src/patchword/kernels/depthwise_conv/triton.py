# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Depthwise 3 x 3 convolutions over row-major maps of tokens, for inference.

References: depthwise_conv_reference, depthwise_residual_reference.

A lane is one column of a map, or two adjacent ones; lanes are numbered over all maps. A strip is some rows of a lane. A
thread has two channels of a strip, with all loops unrolled: each token is loaded once for all its neighbours, and the
taps stay in registers. Consecutive programs have other channels of the same tokens, so that what they write at the same
time is contiguous. Import it only where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit
def _to_float32(x):
    """Converts to float32: two bfloat16 numbers with two instructions, where the compiler uses three."""
    if x.dtype == tl.bfloat16:
        instructions: tl.constexpr = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;"
        found = tl.inline_asm_elementwise(instructions, "=r,=r,r", [x], dtype=tl.float32, is_pure=True, pack=2)
    else:
        found = x.to(tl.float32)
    return found


@triton.jit
def _load_row(
    source, line, sides, strip, height: tl.constexpr, row_stride: tl.constexpr, width: tl.constexpr, span: tl.constexpr,
    columns: tl.constexpr, full_programs: tl.constexpr,
):  # fmt: skip
    """Loads a row of a strip, with the neighbours left and right of its columns. Row 0 is the row above the strip."""
    west, valid, east = sides
    found = ()
    if height <= span and (line == 0 or line > height):
        for _ in tl.static_range(columns + 2):
            found += (tl.zeros(source.shape, source.dtype.element_ty),)
    else:
        inside_map: tl.constexpr = line > 0 and line <= span and (height <= span or height % span == 0)
        row = strip * span + line - 1
        for column in tl.static_range(columns + 2):
            if column == 0:
                mask = west
            elif column > columns:
                mask = east
            else:
                mask = valid
            if not inside_map:
                mask = mask & (row >= 0) & (row < height)
            neighbour = source + ((line - 1) * row_stride + (column - 1) * width)
            if full_programs and inside_map and column > 0 and column <= columns:
                found += (tl.load(neighbour),)
            else:
                found += (tl.load(neighbour, mask=mask[:, None], other=0.0),)
    return found


@triton.jit
def _convolve_strip(
    source, target, filter_stride, taps, sides, strip, height: tl.constexpr, row_stride: tl.constexpr,
    width: tl.constexpr, span: tl.constexpr, columns: tl.constexpr, ahead: tl.constexpr, residual: tl.constexpr,
    full_programs: tl.constexpr,
):  # fmt: skip
    """Convolves a strip of all lanes with one filter or more.

    Rows are loaded `ahead` of the rows that need them. The compiler keeps that order, because a store might change what
    a later load reads. residual: adds the tokens.
    """
    loaded_columns: tl.constexpr = columns + 2
    found = ()
    for row in tl.static_range(span if span < height else height):
        for line in tl.static_range(span + 2):
            if (row == 0 and line <= 2 + ahead) or (row > 0 and line == row + 2 + ahead):
                found += _load_row(source, line, sides, strip, height, row_stride, width, span, columns, full_programs)
        for column in tl.static_range(columns):
            for filter_index in tl.static_range(len(taps) // 10):
                total = tl.broadcast_to(taps[filter_index * 10 + 9], target.shape)
                for tap in tl.static_range(9):
                    if height > span or (row + tap // 3 > 0 and row + tap // 3 <= height):
                        total += (
                            _to_float32(found[(row + tap // 3) * loaded_columns + column + tap % 3])
                            * taps[filter_index * 10 + tap]
                        )
                if residual:
                    total += _to_float32(found[(row + 1) * loaded_columns + column + 1])
                pointer = target + filter_index * filter_stride + (row * row_stride + column * width)
                if full_programs and (height <= span or height % span == 0):
                    tl.store(pointer, total.to(target.dtype.element_ty))
                else:
                    valid = sides[1] & (strip * span + row < height)
                    tl.store(pointer, total.to(target.dtype.element_ty), mask=valid[:, None])


@triton.jit
def _program_indices(
    count, height: tl.constexpr, map_width: tl.constexpr, width: tl.constexpr, span: tl.constexpr,
    columns: tl.constexpr, lanes: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Returns the channels of a program, its strip, the offsets of its lanes, and masks of the lanes: with a left
    neighbour, valid, with a right neighbour."""
    blocks: tl.constexpr = width // block
    parts: tl.constexpr = (height + span - 1) // span
    number = tl.program_id(0)
    channel = number % blocks * block + tl.arange(0, block)
    strip = number // blocks % parts + tl.zeros((lanes,), tl.int32)
    lane = number // (blocks * parts) * lanes + tl.arange(0, lanes)
    across, valid = lane % (map_width // columns) * columns, lane < count // (height * columns)
    image = (lane // (map_width // columns)).to(tl.int64)
    top = (image * (height * map_width) + strip * (span * map_width) + across) * width
    return channel, strip, top, (valid & (across > 0), valid, valid & (across < map_width - columns))


@triton.jit(do_not_specialize=["count"])
def conv_three_filters(
    tokens, table, output, count, height: tl.constexpr, map_width: tl.constexpr, width: tl.constexpr,
    span: tl.constexpr, columns: tl.constexpr, lanes: tl.constexpr, block: tl.constexpr, ahead: tl.constexpr,
    full_programs: tl.constexpr,
):  # fmt: skip
    """Convolves the tokens with three filters. output: (3, count, width)

    table: (3, 10, width), nine taps and a constant per filter. full_programs: the lanes fill all programs. block: less
    than the number of threads, else the taps go through shared memory one by one
    """
    channel, strip, top, sides = _program_indices(count, height, map_width, width, span, columns, lanes, block)
    taps = ()
    for number in tl.static_range(30):
        taps += (tl.load(table + number * width + channel)[None, :],)
    source, target = tokens + top[:, None] + channel[None, :], output + top[:, None] + channel[None, :]
    filter_stride, row_stride = tl.cast(count, tl.int64) * width, map_width * width
    _convolve_strip(
        source,
        target,
        filter_stride,
        taps,
        sides,
        strip,
        height,
        row_stride,
        width,
        span,
        columns,
        ahead,
        False,
        full_programs,
    )


@triton.jit(do_not_specialize=["count"])
def conv_residual(
    tokens, weight, bias, output, count, height: tl.constexpr, map_width: tl.constexpr, width: tl.constexpr,
    span: tl.constexpr, columns: tl.constexpr, lanes: tl.constexpr, block: tl.constexpr, ahead: tl.constexpr,
    full_programs: tl.constexpr,
):  # fmt: skip
    """Adds a convolution of the tokens to them. output: (count, width). weight: (width, 9)"""
    channel, strip, top, sides = _program_indices(count, height, map_width, width, span, columns, lanes, block)
    taps = ()
    for tap in tl.static_range(9):
        taps += (tl.load(weight + channel * 9 + tap).to(tl.float32)[None, :],)
    taps += (tl.load(bias + channel).to(tl.float32)[None, :],)
    source, target = tokens + top[:, None] + channel[None, :], output + top[:, None] + channel[None, :]
    _convolve_strip(
        source,
        target,
        0,
        taps,
        sides,
        strip,
        height,
        map_width * width,
        width,
        span,
        columns,
        ahead,
        True,
        full_programs,
    )
