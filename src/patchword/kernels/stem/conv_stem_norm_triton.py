# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""A convolution over an image of few channels and the LayerNorm after it, in one kernel.

Reference: conv_stem_norm_reference.

A program holds the matrix and walks over tiles of tokens. It reads their patches where they lie, some lines of all of
them at a time, and each line from where several numbers can be fetched at once. Only to be imported where Triton is
installed.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["count"])
def entered(
    image, weight, bias, scale, shift, answer, count, eps, height, map_width, down, across,
    image_step, channel_step, row_step, column_step,
    channels: tl.constexpr, kernel: tl.constexpr, stride: tl.constexpr, padding: tl.constexpr,
    width: tl.constexpr, block: tl.constexpr, line: tl.constexpr, before: tl.constexpr,
    rows: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    """down, across: the answer's map. line, before: numbers that are read of a line, and of these before it begins.
    block: the width or more; as line and depth a power of two"""
    lines: tl.constexpr = channels * kernel
    dtype: tl.constexpr = weight.dtype.element_ty
    column = tl.arange(0, block)
    within, matrices = column < width, ()
    for begin in tl.static_range(0, lines * line, depth):
        number = begin + tl.arange(0, depth)
        which, beside = number // line, number % line - before
        known = (which < lines) & (beside >= 0) & (beside < kernel)
        taps = (which * kernel + beside)[:, None] + column[None, :] * (lines * kernel)
        matrices += (tl.load(weight + taps, mask=known[:, None] & within[None, :], other=0.0),)
    plain = tl.load(bias + column, mask=within, other=0.0).to(tl.float32)[None, :]
    by = tl.load(scale + column, mask=within, other=0.0).to(tl.float32)[None, :]
    plus = tl.load(shift + column, mask=within, other=0.0).to(tl.float32)[None, :]
    for tile in range(tl.program_id(0), tl.cdiv(count, rows), tl.num_programs(0)):
        token = tile * rows + tl.arange(0, rows)
        there = (token < count)[:, None]
        top, left = token // across % down * stride - padding, token % across * stride - (padding + before)
        corner = (token // (across * down)).to(tl.int64) * image_step + top * row_step + left * column_step
        total = tl.zeros((rows, block), tl.float32)
        for part in tl.static_range(len(matrices)):
            number = part * depth + tl.arange(0, depth)
            which, beside = number // line, number % line
            channel, below = which // kernel, which % kernel
            y, x = top[:, None] + below[None, :], left[:, None] + beside[None, :]
            inside = there & (which < lines)[None, :] & (y >= 0) & (y < height) & (x >= 0) & (x < map_width)
            place = channel * channel_step + below * row_step + beside * column_step
            pixels = tl.load(image + corner[:, None] + place[None, :], mask=inside, other=0.0).to(dtype)
            known = (beside >= before) & (beside < before + kernel)
            pixels = tl.where(known[None, :], pixels, 0.0)
            total = tl.dot(pixels, matrices[part], total, input_precision="ieee")
        total += plain
        away = tl.where(within[None, :], total - (tl.sum(total, 1) / width)[:, None], 0.0)
        spread = tl.rsqrt(tl.sum(away * away, 1) / width + eps)[:, None]
        place = token.to(tl.int64)[:, None] * width + column[None, :]
        tl.store(answer + place, (away * spread * by + plus).to(answer.dtype.element_ty), mask=there & within[None, :])
