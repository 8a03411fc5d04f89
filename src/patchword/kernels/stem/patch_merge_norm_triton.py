# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Four neighbours of a map side by side, and their norm, in one pass. The reference is patch_merge_norm_reference.

A program takes some of the answer's tokens and holds all their channels: four times those of the map, each the sum of
two powers of two. Only to be imported where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["count"])
def patch_merge_norm(
    tokens, scale, shift, answer, count, eps, height, map_width, image_step, row_step, column_step,
    first: tl.constexpr, second: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    """height, breadth: of the answer. first + second: channels of the map"""
    width: tl.constexpr = first + second
    row = tl.program_id(0).to(tl.int64) * rows + tl.arange(0, rows)
    there = (row < count)[:, None]
    column, other = tl.arange(0, first)[None, :], first + tl.arange(0, second)[None, :]
    line = row // map_width
    corner = line // height * image_step + line % height * 2 * row_step + row % map_width * 2 * column_step
    parts, total = (), tl.zeros((rows,), tl.float32)
    for corner_of in tl.static_range(4):  # of these the row changes fastest
        place = tokens + (corner + corner_of % 2 * row_step + corner_of // 2 * column_step)[:, None]
        x = tl.load(place + column, mask=there, other=0.0, cache_modifier=".cg").to(tl.float32)
        z = tl.load(place + other, mask=there, other=0.0, cache_modifier=".cg").to(tl.float32)
        parts += (x, z)
        total += tl.sum(x, 1) + tl.sum(z, 1)
    mean, square = (total / (4 * width))[:, None], tl.zeros((rows,), tl.float32)
    for part in tl.static_range(8):
        away = parts[part] - mean
        square += tl.sum(away * away, 1)
    spread = tl.rsqrt(square / (4 * width) + eps)[:, None]
    for part in tl.static_range(8):
        place = part // 2 * width + (column if part % 2 == 0 else other)
        by, plus = tl.load(scale + place).to(tl.float32), tl.load(shift + place).to(tl.float32)
        normed = (parts[part] - mean) * spread * by + plus
        tl.store(answer + row[:, None] * (4 * width) + place, normed.to(answer.dtype.element_ty), mask=there)
