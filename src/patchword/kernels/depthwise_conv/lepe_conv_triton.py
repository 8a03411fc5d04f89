# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Depthwise filters of 3 x 3 over the members of a group: LePE, conditional positions, separable projections.

A program has a block of channels of some columns of groups, and walks down their rows. Each row is read three times, as
it is and from both sides, and goes into the answers of the row above, of itself and of the row below. Channels do not
know of heads. Only to be imported where Triton is installed. taps: (channels, 9), row by row; constant: (channels,).
"""

import triton
import triton.language as tl

from patchword.kernels.window_attention.index_triton import side_index


@triton.jit
def filtered(
    source, taps, constant, plus, answer, start, image_stride, stride, to_start, to_stride, batch, span,
    rows: tl.constexpr, columns: tl.constexpr, channels: tl.constexpr, way: tl.constexpr, lifted: tl.constexpr,
    onto: tl.constexpr, tile: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """answer = what `plus` has, if `onto`, + the constant, if `lifted`, + the filter (way 1) or its gradient (-1).

    span: rows that a program answers. The next row is on its way while one is weighed.
    """
    channel, lane = tl.program_id(1) * block + tl.arange(0, block), tl.program_id(0) * tile + tl.arange(0, tile)
    begin, held = tl.program_id(2) * span, channel < channels
    image, group, beside, right, here = _lanes(rows, columns, lane, batch)
    corner = taps + channel * 9 + (4 - 4 * way)  # the filter of the gradient is turned by half a turn
    w0 = tl.load(corner, mask=held, other=0.0).to(tl.float32)[None, :]
    w1 = tl.load(corner + way, mask=held, other=0.0).to(tl.float32)[None, :]
    w2 = tl.load(corner + 2 * way, mask=held, other=0.0).to(tl.float32)[None, :]
    w3 = tl.load(corner + 3 * way, mask=held, other=0.0).to(tl.float32)[None, :]
    w4 = tl.load(corner + 4 * way, mask=held, other=0.0).to(tl.float32)[None, :]
    w5 = tl.load(corner + 5 * way, mask=held, other=0.0).to(tl.float32)[None, :]
    w6 = tl.load(corner + 6 * way, mask=held, other=0.0).to(tl.float32)[None, :]
    w7 = tl.load(corner + 7 * way, mask=held, other=0.0).to(tl.float32)[None, :]
    w8 = tl.load(corner + 8 * way, mask=held, other=0.0).to(tl.float32)[None, :]
    rest = tl.zeros((1, block), tl.float32)
    if lifted:
        rest = tl.load(constant + channel, mask=held, other=0.0).to(tl.float32)[None, :]
    west, west_there = _on(columns, beside, right - 1)
    place, there = _on(columns, beside, right)
    east, east_there = _on(columns, beside, right + 1)
    known = here[:, None] & held[None, :]
    in_west, in_here, in_east = west_there[:, None] & known, there[:, None] & known, east_there[:, None] & known
    above = source + (image * image_stride + start)[:, None] + channel[None, :]
    from_west, from_east = above + (west * stride)[:, None], above + (east * stride)[:, None]
    from_here = above + (place * stride)[:, None]
    to_here = image * (rows[0] * columns[0]) * to_stride + to_start + place * to_stride
    below = to_here[:, None] + channel[None, :]
    row, inside = _on(rows, group, begin - 1 + tl.zeros_like(group))
    far = (row * columns[0] * stride)[:, None]
    next_west = tl.load(from_west + far, mask=inside[:, None] & in_west, other=0.0)
    next_here = tl.load(from_here + far, mask=inside[:, None] & in_here, other=0.0)
    next_east = tl.load(from_east + far, mask=inside[:, None] & in_east, other=0.0)
    ending, growing = tl.zeros((tile, block), tl.float32), tl.zeros((tile, block), tl.float32)
    for step in range(span + 2):
        one, two, three = next_west.to(tl.float32), next_here.to(tl.float32), next_east.to(tl.float32)
        done = begin + step - 2 + tl.zeros_like(group)
        row, inside = _on(rows, group, done)
        mask = (inside & (done >= begin))[:, None] & in_here
        at = below + (row * columns[0] * to_stride)[:, None]
        ended = ending
        if onto:
            ended += tl.load(plus + at, mask=mask, other=0.0).to(tl.float32)
        row, inside = _on(rows, group, done + 2)
        far, inside = (row * columns[0] * stride)[:, None], inside & (done + 2 <= begin + span)
        next_west = tl.load(from_west + far, mask=inside[:, None] & in_west, other=0.0)
        next_here = tl.load(from_here + far, mask=inside[:, None] & in_here, other=0.0)
        next_east = tl.load(from_east + far, mask=inside[:, None] & in_east, other=0.0)
        ended = ended + one * w6 + two * w7 + three * w8
        ending = growing + one * w3 + two * w4 + three * w5
        growing = rest + one * w0 + two * w1 + three * w2
        tl.store(answer + at, ended.to(answer.dtype.element_ty), mask=mask)


@triton.jit
def taps_back(
    source, gradient, to_taps, start, image_stride, stride, to_start, to_image_stride, to_stride, batch,
    rows: tl.constexpr, columns: tl.constexpr, channels: tl.constexpr, tile: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """What each tap is read by and, behind them, the sums for the constant: a part of the sum for each program."""
    channel = tl.program_id(1) * block + tl.arange(0, block)
    known = channel < channels
    none = tl.zeros((tile, block), tl.float32)
    t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 = none, none, none, none, none, none, none, none, none, none
    count = batch * rows[2] * columns[2] * columns[1]
    for begun in range(tl.program_id(0) * tile, count, tl.num_programs(0) * tile):
        image, group, beside, right, here = _lanes(rows, columns, begun + tl.arange(0, tile), batch)
        west, west_there = _on(columns, beside, right - 1)
        place, there = _on(columns, beside, right)
        east, east_there = _on(columns, beside, right + 1)
        lain = here[:, None] & known[None, :]
        in_west, in_here, in_east = west_there[:, None] & lain, there[:, None] & lain, east_there[:, None] & lain
        above = source + (image * image_stride + start)[:, None] + channel[None, :]
        from_west, from_here = above + (west * stride)[:, None], above + (place * stride)[:, None]
        from_east = above + (east * stride)[:, None]
        slopes = gradient + (image * to_image_stride + to_start + place * to_stride)[:, None] + channel[None, :]
        row, inside = _on(rows, group, tl.zeros_like(group))
        far = (row * columns[0] * to_stride)[:, None]
        upper = none
        middle = tl.load(slopes + far, mask=inside[:, None] & in_here, other=0.0).to(tl.float32)
        for down in range(rows[1]):
            far = (row * columns[0] * stride)[:, None]
            one = tl.load(from_west + far, mask=inside[:, None] & in_west, other=0.0).to(tl.float32)
            two = tl.load(from_here + far, mask=inside[:, None] & in_here, other=0.0).to(tl.float32)
            three = tl.load(from_east + far, mask=inside[:, None] & in_east, other=0.0).to(tl.float32)
            row, inside = _on(rows, group, down + 1 + tl.zeros_like(group))
            far = (row * columns[0] * to_stride)[:, None]
            lower = tl.load(slopes + far, mask=inside[:, None] & in_here, other=0.0).to(tl.float32)
            t0 += lower * one
            t1 += lower * two
            t2 += lower * three
            t3 += middle * one
            t4 += middle * two
            t5 += middle * three
            t6 += upper * one
            t7 += upper * two
            t8 += upper * three
            t9 += middle
            upper = middle
            middle = lower
    base = to_taps + tl.program_id(0) * channels * 10
    at = base + channel * 9
    tl.store(at, tl.sum(t0, 0), mask=known)
    tl.store(at + 1, tl.sum(t1, 0), mask=known)
    tl.store(at + 2, tl.sum(t2, 0), mask=known)
    tl.store(at + 3, tl.sum(t3, 0), mask=known)
    tl.store(at + 4, tl.sum(t4, 0), mask=known)
    tl.store(at + 5, tl.sum(t5, 0), mask=known)
    tl.store(at + 6, tl.sum(t6, 0), mask=known)
    tl.store(at + 7, tl.sum(t7, 0), mask=known)
    tl.store(at + 8, tl.sum(t8, 0), mask=known)
    tl.store(base + channels * 9 + channel, tl.sum(t9, 0), mask=known)


@triton.jit
def total_of(
    parts_of, to_taps, to_constant, parts, channels: tl.constexpr, some: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    """The sum over the parts of taps_back, in a fixed order: the same run gives the same bits."""
    place, total = tl.program_id(0) * block + tl.arange(0, block), tl.zeros((some, block), tl.float32)
    for begun in range(0, parts, some):
        part = begun + tl.arange(0, some)
        inside = (part < parts)[:, None] & (place < channels * 10)[None, :]
        total += tl.load(parts_of + part[:, None] * (channels * 10) + place[None, :], mask=inside, other=0.0)
    found = tl.sum(total, 0)
    tl.store(to_taps + place, found, mask=place < channels * 9)
    tl.store(to_constant + place - channels * 9, found, mask=(place >= channels * 9) & (place < channels * 10))


@triton.jit
def _lanes(rows: tl.constexpr, columns: tl.constexpr, lane, batch):
    """of the columns of all groups of all images: the image, the group along both sides, the column, is it there"""
    group, image = lane // columns[1] % (rows[2] * columns[2]), lane // (columns[1] * rows[2] * columns[2])
    return tl.cast(image, tl.int64), group // columns[2], group % columns[2], lane % columns[1], image < batch


@triton.jit
def _on(side: tl.constexpr, group, member):
    """its place on one side of the map, and whether there is one"""
    place = side_index(side, group, member)
    return place, (member >= 0) & (member < side[1]) & (place < side[0])
