# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""The concatenated channels of each 2 x 2 patch, and their norm, in one pass. Reference: patch_merge_norm_reference.

A program has some output tokens and keeps all their channels in registers: four times those of the map, which are the
sum of two powers of two (first + second). Import it only where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["count"])
def patch_merge_norm(
    tokens, scale, shift, output, count, eps, height, map_width, image_stride, row_stride, column_stride,
    first: tl.constexpr, second: tl.constexpr, rows: tl.constexpr,
):  # fmt: skip
    """height, map_width: the sides of the output map. first + second: the channels of the input map"""
    width: tl.constexpr = first + second
    row = tl.program_id(0).to(tl.int64) * rows + tl.arange(0, rows)
    valid = (row < count)[:, None]
    column, other = tl.arange(0, first)[None, :], first + tl.arange(0, second)[None, :]
    line = row // map_width
    corner = line // height * image_stride + line % height * 2 * row_stride + row % map_width * 2 * column_stride
    loaded, total = (), tl.zeros((rows,), tl.float32)
    for neighbour in tl.static_range(4):  # in the order of Swin: the row changes fastest
        offsets = tokens + (corner + neighbour % 2 * row_stride + neighbour // 2 * column_stride)[:, None]
        x = tl.load(offsets + column, mask=valid, other=0.0, cache_modifier=".cg").to(tl.float32)
        z = tl.load(offsets + other, mask=valid, other=0.0, cache_modifier=".cg").to(tl.float32)
        loaded += (x, z)
        total += tl.sum(x, 1) + tl.sum(z, 1)
    mean, square = (total / (4 * width))[:, None], tl.zeros((rows,), tl.float32)
    for part in tl.static_range(8):
        centred = loaded[part] - mean
        square += tl.sum(centred * centred, 1)
    inv_std = tl.rsqrt(square / (4 * width) + eps)[:, None]
    for part in tl.static_range(8):
        offsets = part // 2 * width + (column if part % 2 == 0 else other)
        scale_part, shift_part = tl.load(scale + offsets).to(tl.float32), tl.load(shift + offsets).to(tl.float32)
        normed = (loaded[part] - mean) * inv_std * scale_part + shift_part
        tl.store(output + row[:, None] * (4 * width) + offsets, normed.to(output.dtype.element_ty), mask=valid)
