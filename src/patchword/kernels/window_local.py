# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""LePE inside a kernel: the values of a member and of its eight neighbours in the group, weighed channel by channel.

Only to be imported where Triton is installed. taps: (channels, 10), nine weights row by row and a bias.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchword.kernels.window_index import image_of, read, spot, spot_at
from patchword.kernels.window_plan import Rectangles, walkers

_TILE, _WAVES = 32, 8  # members at a time; programs for each processor


@triton.jit
def local_of(base, taps, rows, columns, inner, member, start, stride, head_width, width: tl.constexpr, way):
    """(members, width): the filter over the values, with its bias (way 1), or its gradient over what left it (-1)"""
    channel = tl.arange(0, width)
    inside = channel < head_width
    weights, down, right = taps + (start + channel) * 10, member // columns[1], member % columns[1]
    answer = tl.zeros((member.shape[0], width), tl.float32)
    if way == 1:
        answer += tl.load(weights + 9, mask=inside, other=0.0).to(tl.float32)[None, :]
    for tap in tl.static_range(9):
        token, there, _ = spot_at(rows, columns, inner, down + way * (tap // 3 - 1), right + way * (tap % 3 - 1))
        values = read(base, token, there, stride, head_width, width)
        answer += values.to(tl.float32) * tl.load(weights + tap, mask=inside, other=0.0).to(tl.float32)[None, :]
    return answer


@triton.jit
def _taps(
    value, gradient, to_taps, strides, rows, columns, heads, head_width, count, tile: tl.constexpr, width: tl.constexpr
):
    """(16, width) of one head: what each tap is read by, summed over the groups that a program walks over"""
    head, channel = tl.program_id(0), tl.arange(0, width)
    start, row, size = head * head_width, tl.arange(0, 16), rows[1] * columns[1]
    total = tl.zeros((16, width), tl.float32)
    for group in range(tl.program_id(1), count, tl.num_programs(1)):
        image, inner = image_of(group, rows, columns)
        values, above = value + image * strides[0] + start, gradient + image * strides[2] + start
        for first in range(0, size, tile):
            member = first + tl.arange(0, tile)
            token, there, _ = spot(rows, columns, inner, member)
            g = read(above, token, there, strides[3], head_width, width).to(tl.float32)
            total += tl.where(row == 9, 1.0, 0.0)[:, None] * tl.sum(g, 0)[None, :]
            for tap in tl.static_range(9):
                down, right = member // columns[1] + tap // 3 - 1, member % columns[1] + tap % 3 - 1
                token, there, _ = spot_at(rows, columns, inner, down, right)
                v = read(values, token, there, strides[1], head_width, width).to(tl.float32)
                total += tl.where(row == tap, 1.0, 0.0)[:, None] * tl.sum(g * v, 0)[None, :]
    place = (tl.program_id(1) * heads * head_width + start + channel)[None, :] * 10 + row[:, None]
    tl.store(to_taps + place, total, mask=(row < 10)[:, None] & (channel < head_width)[None, :])


def taps_back(value: Tensor, gradient: Tensor, taps: Tensor, cut: Rectangles, heads: int, processors: int) -> Tensor:
    """(channels, 10)"""
    head, count = value.shape[2] // heads, value.shape[0] * cut.groups
    programs, strides = walkers(count, heads, _WAVES * processors), (*value.stride()[:2], *gradient.stride()[:2])
    parts = torch.empty(programs, *taps.shape, dtype=torch.float32, device=taps.device)
    run: Any = _taps[heads, programs]
    sides, width = (tuple(cut.rows), tuple(cut.columns)), max(16, triton.next_power_of_2(head))
    run(value, gradient, parts, strides, *sides, heads, head, count, tile=_TILE, width=width, num_warps=4)
    return parts.sum(0).to(taps.dtype)
