# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Depthwise 3 x 3 convolutions over row-major maps of tokens, for inference.

References: depthwise_conv_reference, depthwise_residual_reference.

A lane is a column of a map, or two beside each other; lanes are counted over all maps. A thread has two channels of
some rows of a lane, all written out: each token is read once for all that it is a neighbour of, and taps stay in
registers. Programs that follow each other have other channels of the same tokens, so that what is written at one time
lies side by side. Only to be imported where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit
def _long(x):
    """float32. Two numbers of bfloat16 take two instructions, where the compiler takes three."""
    if x.dtype == tl.bfloat16:
        way: tl.constexpr = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;"
        found = tl.inline_asm_elementwise(way, "=r,=r,r", [x], dtype=tl.float32, is_pure=True, pack=2)
    else:
        found = x.to(tl.float32)
    return found


@triton.jit
def _line(
    here, line, sides, strip, height: tl.constexpr, jump: tl.constexpr, width: tl.constexpr, span: tl.constexpr,
    columns: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """a row of a strip, from what lies left of its columns to what lies right; row 0 lies above the strip"""
    west, there, east = sides
    found = ()
    if height <= span and (line == 0 or line > height):
        for _ in tl.static_range(columns + 2):
            found += (tl.zeros(here.shape, here.dtype.element_ty),)
    else:
        free: tl.constexpr = line > 0 and line <= span and (height <= span or height % span == 0)
        row = strip * span + line - 1
        for column in tl.static_range(columns + 2):
            if column == 0:
                known = west
            elif column > columns:
                known = east
            else:
                known = there
            if not free:
                known = known & (row >= 0) & (row < height)
            beside = here + ((line - 1) * jump + (column - 1) * width)
            if whole and free and column > 0 and column <= columns:
                found += (tl.load(beside),)
            else:
                found += (tl.load(beside, mask=known[:, None], other=0.0),)
    return found


@triton.jit
def _filter(
    here, to, far, taps, sides, strip, height: tl.constexpr, jump: tl.constexpr, width: tl.constexpr,
    span: tl.constexpr, columns: tl.constexpr, ahead: tl.constexpr, onto: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """a strip of all lanes, by one filter or more. Rows are read `ahead` of those that want them; since what is written
    may be what is read next, the compiler keeps to it."""
    more: tl.constexpr = columns + 2
    found = ()
    for row in tl.static_range(span if span < height else height):
        for line in tl.static_range(span + 2):
            if (row == 0 and line <= 2 + ahead) or (row > 0 and line == row + 2 + ahead):
                found += _line(here, line, sides, strip, height, jump, width, span, columns, whole)
        for column in tl.static_range(columns):
            for own in tl.static_range(len(taps) // 10):
                total = tl.broadcast_to(taps[own * 10 + 9], to.shape)
                for tap in tl.static_range(9):
                    if height > span or (row + tap // 3 > 0 and row + tap // 3 <= height):
                        total += _long(found[(row + tap // 3) * more + column + tap % 3]) * taps[own * 10 + tap]
                if onto:
                    total += _long(found[(row + 1) * more + column + 1])
                place = to + own * far + (row * jump + column * width)
                if whole and (height <= span or height % span == 0):
                    tl.store(place, total.to(to.dtype.element_ty))
                else:
                    known = sides[1] & (strip * span + row < height)
                    tl.store(place, total.to(to.dtype.element_ty), mask=known[:, None])


@triton.jit
def _begin(
    count, height: tl.constexpr, breadth: tl.constexpr, width: tl.constexpr, span: tl.constexpr,
    columns: tl.constexpr, lanes: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """of a program: its channels, its strip, where its lanes begin, and whether there are tokens left of them, there
    and right of them"""
    blocks: tl.constexpr = width // block
    parts: tl.constexpr = (height + span - 1) // span
    number = tl.program_id(0)
    channel = number % blocks * block + tl.arange(0, block)
    strip = number // blocks % parts + tl.zeros((lanes,), tl.int32)
    lane = number // (blocks * parts) * lanes + tl.arange(0, lanes)
    across, there = lane % (breadth // columns) * columns, lane < count // (height * columns)
    image = (lane // (breadth // columns)).to(tl.int64)
    top = (image * (height * breadth) + strip * (span * breadth) + across) * width
    return channel, strip, top, (there & (across > 0), there, there & (across < breadth - columns))


@triton.jit(do_not_specialize=["count"])
def thrice(
    tokens, table, answer, count, height: tl.constexpr, breadth: tl.constexpr, width: tl.constexpr,
    span: tl.constexpr, columns: tl.constexpr, lanes: tl.constexpr, block: tl.constexpr, ahead: tl.constexpr,
    whole: tl.constexpr,
):  # fmt: skip
    """answer: (3, count, width), what three filters make of the tokens. table: (3, 10, width), of each filter nine taps
    and what is added. whole: the lanes fill all programs. block: less than the threads, else taps go through shared
    memory one by one"""
    channel, strip, top, sides = _begin(count, height, breadth, width, span, columns, lanes, block)
    taps = ()
    for number in tl.static_range(30):
        taps += (tl.load(table + number * width + channel)[None, :],)
    here, to = tokens + top[:, None] + channel[None, :], answer + top[:, None] + channel[None, :]
    far, jump = tl.cast(count, tl.int64) * width, breadth * width
    _filter(here, to, far, taps, sides, strip, height, jump, width, span, columns, ahead, False, whole)


@triton.jit(do_not_specialize=["count"])
def added(
    tokens, weight, bias, answer, count, height: tl.constexpr, breadth: tl.constexpr, width: tl.constexpr,
    span: tl.constexpr, columns: tl.constexpr, lanes: tl.constexpr, block: tl.constexpr, ahead: tl.constexpr,
    whole: tl.constexpr,
):  # fmt: skip
    """answer: (count, width), the tokens and what one filter makes of them. weight: (width, 9)"""
    channel, strip, top, sides = _begin(count, height, breadth, width, span, columns, lanes, block)
    taps = ()
    for tap in tl.static_range(9):
        taps += (tl.load(weight + channel * 9 + tap).to(tl.float32)[None, :],)
    taps += (tl.load(bias + channel).to(tl.float32)[None, :],)
    here, to = tokens + top[:, None] + channel[None, :], answer + top[:, None] + channel[None, :]
    _filter(here, to, 0, taps, sides, strip, height, breadth * width, width, span, columns, ahead, True, whole)
