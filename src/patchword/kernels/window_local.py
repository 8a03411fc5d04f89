# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""LePE inside a kernel: the values of a member and of its eight neighbours in the group, weighed channel by channel.

Only to be imported where Triton is installed. taps: (10, channels), nine weights row by row and a bias.
"""

import triton
import triton.language as tl

from patchword.kernels.window_index import read, spot, spot_at


@triton.jit
def local_of(
    base, taps, rows: tl.constexpr, columns: tl.constexpr, inner, member, head, heads, stride,
    head_width: tl.constexpr, width: tl.constexpr, way: tl.constexpr,
):  # fmt: skip
    """(members, width): the filter over the values, with its bias (way 1), or its gradient over what left it (-1)"""
    channel, channels = tl.arange(0, width), heads * head_width
    inside = channel < head_width
    weights, down, right = taps + head * head_width + channel, member // columns[1], member % columns[1]
    answer = tl.zeros((member.shape[0], width), tl.float32)
    if way == 1:
        answer += tl.load(weights + 9 * channels, mask=inside, other=0.0).to(tl.float32)[None, :]
    for tap in tl.static_range(9):
        token, there, _ = spot_at(rows, columns, inner, down + way * (tap // 3 - 1), right + way * (tap % 3 - 1))
        values = read(base, token, there, stride, head_width, width).to(tl.float32)
        answer += values * tl.load(weights + tap * channels, mask=inside, other=0.0).to(tl.float32)[None, :]
    return answer


@triton.jit
def taps_back(
    value, gradient, to_taps, start, beside, image_stride, stride, batch, heads, all_heads,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, tile: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """(10, width) of one head: what each tap is read by and, last, the bias. A program has a tile of members of some
    places on the map and walks over the images; it sums over members at the end."""
    head, parts = tl.program_id(0), tl.cdiv(rows[1] * columns[1], tile)
    first, answers = start + head * head_width, all_heads * head_width
    none = tl.zeros((tile, width), tl.float32)
    t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 = none, none, none, none, none, none, none, none, none, none
    for part in range(tl.program_id(1), rows[2] * columns[2] * parts, tl.num_programs(1)):
        inner, member = part // parts, part % parts * tile + tl.arange(0, tile)
        token, there, _ = spot(rows, columns, inner, member)
        for image in range(tl.program_id(2), batch, tl.num_programs(2)):
            far = tl.cast(image, tl.int64)
            slopes_at = gradient + far * (rows[0] * columns[0]) * answers + first
            v = value + far * image_stride + first + 2 * beside
            g = read(slopes_at, token, there, answers, head_width, width).to(tl.float32)
            t0 += g * _read_by(v, rows, columns, inner, member, stride, head_width, width, 0)
            t1 += g * _read_by(v, rows, columns, inner, member, stride, head_width, width, 1)
            t2 += g * _read_by(v, rows, columns, inner, member, stride, head_width, width, 2)
            t3 += g * _read_by(v, rows, columns, inner, member, stride, head_width, width, 3)
            t4 += g * _read_by(v, rows, columns, inner, member, stride, head_width, width, 4)
            t5 += g * _read_by(v, rows, columns, inner, member, stride, head_width, width, 5)
            t6 += g * _read_by(v, rows, columns, inner, member, stride, head_width, width, 6)
            t7 += g * _read_by(v, rows, columns, inner, member, stride, head_width, width, 7)
            t8 += g * _read_by(v, rows, columns, inner, member, stride, head_width, width, 8)
            t9 += g
    walker = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    channel = tl.arange(0, width)
    base, inside = to_taps + (walker * heads + head) * head_width * 10 + channel * 10, channel < head_width
    tl.store(base, tl.sum(t0, 0), mask=inside)
    tl.store(base + 1, tl.sum(t1, 0), mask=inside)
    tl.store(base + 2, tl.sum(t2, 0), mask=inside)
    tl.store(base + 3, tl.sum(t3, 0), mask=inside)
    tl.store(base + 4, tl.sum(t4, 0), mask=inside)
    tl.store(base + 5, tl.sum(t5, 0), mask=inside)
    tl.store(base + 6, tl.sum(t6, 0), mask=inside)
    tl.store(base + 7, tl.sum(t7, 0), mask=inside)
    tl.store(base + 8, tl.sum(t8, 0), mask=inside)
    tl.store(base + 9, tl.sum(t9, 0), mask=inside)


@triton.jit
def _read_by(
    base, rows: tl.constexpr, columns: tl.constexpr, inner, member, stride, head_width: tl.constexpr,
    width: tl.constexpr, tap: tl.constexpr,
):  # fmt: skip
    """(members, width): the values of the neighbours that a tap reads"""
    down, right = member // columns[1] + tap // 3 - 1, member % columns[1] + tap % 3 - 1
    token, there, _ = spot_at(rows, columns, inner, down, right)
    return read(base, token, there, stride, head_width, width).to(tl.float32)
