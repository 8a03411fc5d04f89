# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Filters of 3 x 3 and the matrices behind them in one kernel: the filtered tokens never leave the chip. The twin is
plain_separable.

A program has a tile of tokens, of one projection or of all. It reads each token and its neighbours where they lie, a
block of channels at a time, and walks over the columns of the matrix, a chunk at a time. What lies in a norm is folded
into the taps before, by a kernel of its own: there each channel's taps lie side by side, while programs want those of
many channels side by side, and would wait for each of them.

Only to be imported where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit
def folded(
    taps_q, scale_q, shift_q, mean_q, spread_q, taps_k, scale_k, shift_k, mean_k, spread_k,
    taps_v, scale_v, shift_v, mean_v, spread_v, table, eps, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """table: (3, 10, width), float32: for each projection nine taps and what is added, norm and all"""
    own, channel = tl.program_id(1), tl.program_id(0) * block + tl.arange(0, block)
    table += own * 10 * width + channel
    if own == 0:
        _fold(taps_q, scale_q, shift_q, mean_q, spread_q, table, channel, eps, width)
    elif own == 1:
        _fold(taps_k, scale_k, shift_k, mean_k, spread_k, table, channel, eps, width)
    else:
        _fold(taps_v, scale_v, shift_v, mean_v, spread_v, table, channel, eps, width)


@triton.jit
def _fold(taps, scale, shift, mean, spread, table, channel, eps, width: tl.constexpr):
    by = tl.load(scale + channel).to(tl.float32) * tl.rsqrt(tl.load(spread + channel).to(tl.float32) + eps)
    for tap in tl.static_range(9):
        tl.store(table + tap * width, tl.load(taps + channel * 9 + tap).to(tl.float32) * by)
    tl.store(table + 9 * width, tl.load(shift + channel).to(tl.float32) - tl.load(mean + channel).to(tl.float32) * by)


@triton.jit
def _one_of(own, one, two, three, each: tl.constexpr):
    """the pointers of a program's projections"""
    return (one, two, three) if each == 3 else (tl.where(own == 0, one, tl.where(own == 1, two, three)),)


@triton.jit
def _filtered(
    here, taps, across, down, kind: tl.constexpr, each: tl.constexpr,
    height: tl.constexpr, breadth: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """(rows, block) for each projection: the neighbours are read once for all of them. here, taps: where some channels
    of the tokens lie, and of the table; all else lies at distances that are known."""
    sums = ()
    for own in tl.static_range(each):
        sums += (tl.broadcast_to(tl.load(taps + (own * 10 + 9) * width)[None, :], here.shape),)
    for line in range(3):
        below = down + (line - 1)
        in_line, beside = (below >= 0) & (below < height), here + (line - 1) * (breadth * width)
        for side in tl.static_range(3):
            right = across + (side - 1)
            inside = in_line & (right >= 0) & (right < breadth)
            x = tl.load(beside + (side - 1) * width, mask=inside[:, None], other=0.0).to(tl.float32)
            grown = ()
            for own in tl.static_range(each):
                grown += (sums[own] + x * tl.load(taps + (own * 10 + line * 3 + side) * width)[None, :],)
            sums = grown
    short = ()
    for own in tl.static_range(each):
        short += (sums[own].to(kind),)
    return short


@triton.jit(do_not_specialize=["count"])
def projected(
    tokens, table, matrix_q, bias_q, matrix_k, bias_k, matrix_v, bias_v, answer, count,
    height: tl.constexpr, breadth: tl.constexpr, width: tl.constexpr, each: tl.constexpr,
    rows: tl.constexpr, block: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    """answer: (count, 3 * width). each: projections of a program, 1 or 3. Programs that run together share tokens."""
    shares: tl.constexpr = 3 // each
    kind: tl.constexpr = matrix_q.dtype.element_ty
    first, start = tl.program_id(0) % shares, (tl.program_id(0) // shares).to(tl.int64) * rows
    token, across, down, there = _on_map(start, count, height, breadth, rows)
    channel = tl.arange(0, block)
    here = tokens + start * width + token[:, None] * width + channel[None, :]
    taps, held = table + first * 10 * width + channel, ()
    for part in tl.static_range(width // block):
        held += _filtered(here + part * block, taps + part * block, across, down, kind, each, height, breadth, width)
    matrices, biases = _one_of(first, matrix_q, matrix_k, matrix_v, each), _one_of(first, bias_q, bias_k, bias_v, each)
    answer += start * 3 * width + first * width
    for own in tl.static_range(each):
        for begin in range(0, width, chunk):
            column = begin + tl.arange(0, chunk)
            total = tl.zeros((rows, chunk), tl.float32)
            for part in tl.static_range(width // block):
                inner = part * block + channel
                matrix = tl.load(matrices[own] + inner[:, None] + column[None, :] * width)
                total = tl.dot(held[part * each + own], matrix, total, input_precision="ieee")
            total += tl.load(biases[own] + column).to(tl.float32)[None, :]
            place = answer + token[:, None] * (3 * width) + own * width + column[None, :]
            tl.store(place, total.to(answer.dtype.element_ty), mask=there[:, None])


@triton.jit
def _on_map(start, count, height: tl.constexpr, breadth: tl.constexpr, rows: tl.constexpr):
    """of a tile of tokens: their numbers in it, column and row on the map (below all, if there is none), is it there"""
    token = tl.arange(0, rows)
    there = token < count - start
    on_map = ((start % (height * breadth)).to(tl.int32) + token) % (height * breadth)
    return token, on_map % breadth, tl.where(there, on_map // breadth, height + 1), there
