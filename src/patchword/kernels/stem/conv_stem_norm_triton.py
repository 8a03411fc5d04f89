# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""A convolution over an image of few channels and the LayerNorm after it, in one kernel.

Reference: conv_stem_norm_reference.

A program keeps the matrix in registers and loops over tiles of tokens. It loads their patches from the image, a few
lines of all patches at a time; each load of a line starts at an aligned address. A line is one row of one channel of a
patch. Import it only where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["count"])
def conv_norm_kernel(
    image, weight, bias, scale, shift, output, count, eps, height, image_width, output_height, output_width,
    image_stride, channel_stride, row_stride, column_stride,
    channels: tl.constexpr, kernel: tl.constexpr, stride: tl.constexpr, padding: tl.constexpr,
    width: tl.constexpr, block: tl.constexpr, line: tl.constexpr, lead: tl.constexpr,
    rows: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    """output_height, output_width: the sides of the output map. line: numbers that are loaded per line; lead: how many
    of them precede the patch, for alignment. block: the width up to a power of two; line and depth are powers of two"""
    lines: tl.constexpr = channels * kernel
    dtype: tl.constexpr = weight.dtype.element_ty
    column = tl.arange(0, block)
    column_valid, matrices = column < width, ()
    for begin in tl.static_range(0, lines * line, depth):
        number = begin + tl.arange(0, depth)
        line_index, line_offset = number // line, number % line - lead
        tap_valid = (line_index < lines) & (line_offset >= 0) & (line_offset < kernel)
        taps = (line_index * kernel + line_offset)[:, None] + column[None, :] * (lines * kernel)
        matrices += (tl.load(weight + taps, mask=tap_valid[:, None] & column_valid[None, :], other=0.0),)
    bias_row = tl.load(bias + column, mask=column_valid, other=0.0).to(tl.float32)[None, :]
    scale_row = tl.load(scale + column, mask=column_valid, other=0.0).to(tl.float32)[None, :]
    shift_row = tl.load(shift + column, mask=column_valid, other=0.0).to(tl.float32)[None, :]
    for tile in range(tl.program_id(0), tl.cdiv(count, rows), tl.num_programs(0)):
        token = tile * rows + tl.arange(0, rows)
        token_valid = (token < count)[:, None]
        top, left = (
            token // output_width % output_height * stride - padding,
            token % output_width * stride - (padding + lead),
        )
        corner = (
            (token // (output_width * output_height)).to(tl.int64) * image_stride
            + top * row_stride
            + left * column_stride
        )
        total = tl.zeros((rows, block), tl.float32)
        for part in tl.static_range(len(matrices)):
            number = part * depth + tl.arange(0, depth)
            line_index, line_offset = number // line, number % line
            channel, kernel_row = line_index // kernel, line_index % kernel
            y, x = top[:, None] + kernel_row[None, :], left[:, None] + line_offset[None, :]
            inside = (
                token_valid & (line_index < lines)[None, :] & (y >= 0) & (y < height) & (x >= 0) & (x < image_width)
            )
            offset = channel * channel_stride + kernel_row * row_stride + line_offset * column_stride
            pixels = tl.load(image + corner[:, None] + offset[None, :], mask=inside, other=0.0).to(dtype)
            tap_valid = (line_offset >= lead) & (line_offset < lead + kernel)
            pixels = tl.where(tap_valid[None, :], pixels, 0.0)
            total = tl.dot(pixels, matrices[part], total, input_precision="ieee")
        total += bias_row
        centred = tl.where(column_valid[None, :], total - (tl.sum(total, 1) / width)[:, None], 0.0)
        inv_std = tl.rsqrt(tl.sum(centred * centred, 1) / width + eps)[:, None]
        offset = token.to(tl.int64)[:, None] * width + column[None, :]
        tl.store(
            output + offset,
            (centred * inv_std * scale_row + shift_row).to(output.dtype.element_ty),
            mask=token_valid & column_valid[None, :],
        )
