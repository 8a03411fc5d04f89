# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""A convolution over an image of few channels, and the norm behind it, in one kernel. The twin is plain_entrance.

A program has some tokens, reads their patches where they lie, some lines of all of them at a time, and multiplies. Only
to be imported where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["count"])
def entered(
    image, weight, bias, scale, shift, answer, count, eps, height, breadth, down, across,
    image_step, channel_step, row_step, column_step,
    channels: tl.constexpr, kernel: tl.constexpr, stride: tl.constexpr, padding: tl.constexpr,
    width: tl.constexpr, block: tl.constexpr, line: tl.constexpr, rows: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    """down, across: the answer's map. block, line: the width and the side of the kernel, or more: powers of two"""
    lines: tl.constexpr = channels * kernel
    kind: tl.constexpr = weight.dtype.element_ty
    token = tl.program_id(0) * rows + tl.arange(0, rows)
    there, column = (token < count)[:, None], tl.arange(0, block)
    top, left = token // across % down * stride - padding, token % across * stride - padding
    corner = (token // (across * down)).to(tl.int64) * image_step + top * row_step + left * column_step
    total = tl.zeros((rows, block), tl.float32)
    for begin in tl.static_range(0, lines * line, depth):
        number = begin + tl.arange(0, depth)
        which, beside = number // line, number % line
        channel, below = which // kernel, which % kernel
        known = (which < lines) & (beside < kernel)
        y, x = top[:, None] + below[None, :], left[:, None] + beside[None, :]
        inside = there & known[None, :] & (y >= 0) & (y < height) & (x >= 0) & (x < breadth)
        place = channel * channel_step + below * row_step + beside * column_step
        pixels = tl.load(image + corner[:, None] + place[None, :], mask=inside, other=0.0).to(kind)
        known = known[:, None] & (column < width)[None, :]
        taps = (which * kernel + beside)[:, None] + column[None, :] * (lines * kernel)
        total = tl.dot(pixels, tl.load(weight + taps, mask=known, other=0.0), total, input_precision="ieee")
    inside = column < width
    total += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    away = tl.where(inside[None, :], total - (tl.sum(total, 1) / width)[:, None], 0.0)
    spread = tl.rsqrt(tl.sum(away * away, 1) / width + eps)[:, None]
    by = tl.load(scale + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    plus = tl.load(shift + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    place = token.to(tl.int64)[:, None] * width + column[None, :]
    tl.store(answer + place, (away * spread * by + plus).to(answer.dtype.element_ty), mask=there & inside[None, :])
