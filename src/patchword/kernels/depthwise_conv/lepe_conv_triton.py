# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Depthwise 3 x 3 convolutions inside groups of tokens: LePE, conditional positions, separable projections.

A lane is one column of one group of one image. A program has a block of channels of several lanes, and loops over their
rows. It loads each row three times, shifted by -1, 0 and 1 columns, and adds it to the outputs of the row above, of the
same row and of the row below. Import it only where Triton is installed.

taps: (channels, 9), row by row; constant: (channels,), the bias of the convolution.
"""

import triton
import triton.language as tl

from patchword.kernels.window_attention.index_triton import side_index


@triton.jit
def conv3x3(
    source, taps, constant, addend, output, start, image_stride, stride, output_start, output_stride, batch, span,
    rows: tl.constexpr, columns: tl.constexpr, channels: tl.constexpr, direction: tl.constexpr,
    has_constant: tl.constexpr, accumulate: tl.constexpr, tile: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Computes the convolution (direction 1), or the gradient of its input from that of its output (direction -1).

    has_constant: adds the constant. accumulate: adds `addend`, which has the layout of the output. span: output rows of
    a program. The next row is loaded while the current one is multiplied.
    """
    channel, lane = tl.program_id(1) * block + tl.arange(0, block), tl.program_id(0) * tile + tl.arange(0, tile)
    begin, channel_valid = tl.program_id(2) * span, channel < channels
    image, group, column_group, right, lane_valid = _lane_indices(rows, columns, lane, batch)
    corner = taps + channel * 9 + (4 - 4 * direction)  # the gradient reverses the order of the taps
    w0 = tl.load(corner, mask=channel_valid, other=0.0).to(tl.float32)[None, :]
    w1 = tl.load(corner + direction, mask=channel_valid, other=0.0).to(tl.float32)[None, :]
    w2 = tl.load(corner + 2 * direction, mask=channel_valid, other=0.0).to(tl.float32)[None, :]
    w3 = tl.load(corner + 3 * direction, mask=channel_valid, other=0.0).to(tl.float32)[None, :]
    w4 = tl.load(corner + 4 * direction, mask=channel_valid, other=0.0).to(tl.float32)[None, :]
    w5 = tl.load(corner + 5 * direction, mask=channel_valid, other=0.0).to(tl.float32)[None, :]
    w6 = tl.load(corner + 6 * direction, mask=channel_valid, other=0.0).to(tl.float32)[None, :]
    w7 = tl.load(corner + 7 * direction, mask=channel_valid, other=0.0).to(tl.float32)[None, :]
    w8 = tl.load(corner + 8 * direction, mask=channel_valid, other=0.0).to(tl.float32)[None, :]
    constant_row = tl.zeros((1, block), tl.float32)
    if has_constant:
        constant_row = tl.load(constant + channel, mask=channel_valid, other=0.0).to(tl.float32)[None, :]
    west, west_valid = _side_index(columns, column_group, right - 1)
    position, column_valid = _side_index(columns, column_group, right)
    east, east_valid = _side_index(columns, column_group, right + 1)
    pair_valid = lane_valid[:, None] & channel_valid[None, :]
    west_mask, east_mask = west_valid[:, None] & pair_valid, east_valid[:, None] & pair_valid
    column_mask = column_valid[:, None] & pair_valid
    first_row = source + (image * image_stride + start)[:, None] + channel[None, :]
    from_west, from_east = first_row + (west * stride)[:, None], first_row + (east * stride)[:, None]
    from_here = first_row + (position * stride)[:, None]
    output_token = image * (rows[0] * columns[0]) * output_stride + output_start + position * output_stride
    output_column = output_token[:, None] + channel[None, :]
    row, inside = _side_index(rows, group, begin - 1 + tl.zeros_like(group))
    row_offset = (row * columns[0] * stride)[:, None]
    next_west = tl.load(from_west + row_offset, mask=inside[:, None] & west_mask, other=0.0)
    next_here = tl.load(from_here + row_offset, mask=inside[:, None] & column_mask, other=0.0)
    next_east = tl.load(from_east + row_offset, mask=inside[:, None] & east_mask, other=0.0)
    sum_above, sum_here = tl.zeros((tile, block), tl.float32), tl.zeros((tile, block), tl.float32)
    for step in range(span + 2):
        one, two, three = next_west.to(tl.float32), next_here.to(tl.float32), next_east.to(tl.float32)
        output_row = begin + step - 2 + tl.zeros_like(group)
        row, inside = _side_index(rows, group, output_row)
        mask = (inside & (output_row >= begin))[:, None] & column_mask
        output_index = output_column + (row * columns[0] * output_stride)[:, None]
        finished = sum_above
        if accumulate:
            finished += tl.load(addend + output_index, mask=mask, other=0.0).to(tl.float32)
        row, inside = _side_index(rows, group, output_row + 2)
        row_offset, inside = (row * columns[0] * stride)[:, None], inside & (output_row + 2 <= begin + span)
        next_west = tl.load(from_west + row_offset, mask=inside[:, None] & west_mask, other=0.0)
        next_here = tl.load(from_here + row_offset, mask=inside[:, None] & column_mask, other=0.0)
        next_east = tl.load(from_east + row_offset, mask=inside[:, None] & east_mask, other=0.0)
        finished = finished + one * w6 + two * w7 + three * w8
        sum_above = sum_here + one * w3 + two * w4 + three * w5
        sum_here = constant_row + one * w0 + two * w1 + three * w2
        tl.store(output + output_index, finished.to(output.dtype.element_ty), mask=mask)


@triton.jit
def taps_backward(
    source, grad_output, grad_taps, start, image_stride, stride, output_start, output_image_stride, output_stride,
    batch, rows: tl.constexpr, columns: tl.constexpr, channels: tl.constexpr, tile: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Computes the gradients of the taps and, after them, of the constant: one partial sum per program."""
    channel = tl.program_id(1) * block + tl.arange(0, block)
    channel_valid = channel < channels
    zeros = tl.zeros((tile, block), tl.float32)
    t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 = zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros
    count = batch * rows[2] * columns[2] * columns[1]
    for begin in range(tl.program_id(0) * tile, count, tl.num_programs(0) * tile):
        image, group, column_group, right, lane_valid = _lane_indices(rows, columns, begin + tl.arange(0, tile), batch)
        west, west_valid = _side_index(columns, column_group, right - 1)
        position, column_valid = _side_index(columns, column_group, right)
        east, east_valid = _side_index(columns, column_group, right + 1)
        pair_valid = lane_valid[:, None] & channel_valid[None, :]
        west_mask, east_mask = west_valid[:, None] & pair_valid, east_valid[:, None] & pair_valid
        column_mask = column_valid[:, None] & pair_valid
        first_row = source + (image * image_stride + start)[:, None] + channel[None, :]
        from_west, from_here = first_row + (west * stride)[:, None], first_row + (position * stride)[:, None]
        from_east = first_row + (east * stride)[:, None]
        grads = (
            grad_output
            + (image * output_image_stride + output_start + position * output_stride)[:, None]
            + channel[None, :]
        )
        row, inside = _side_index(rows, group, tl.zeros_like(group))
        row_offset = (row * columns[0] * output_stride)[:, None]
        upper = zeros
        middle = tl.load(grads + row_offset, mask=inside[:, None] & column_mask, other=0.0).to(tl.float32)
        for down in range(rows[1]):
            row_offset = (row * columns[0] * stride)[:, None]
            one = tl.load(from_west + row_offset, mask=inside[:, None] & west_mask, other=0.0).to(tl.float32)
            two = tl.load(from_here + row_offset, mask=inside[:, None] & column_mask, other=0.0).to(tl.float32)
            three = tl.load(from_east + row_offset, mask=inside[:, None] & east_mask, other=0.0).to(tl.float32)
            row, inside = _side_index(rows, group, down + 1 + tl.zeros_like(group))
            row_offset = (row * columns[0] * output_stride)[:, None]
            lower = tl.load(grads + row_offset, mask=inside[:, None] & column_mask, other=0.0).to(tl.float32)
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
    base = grad_taps + tl.program_id(0) * channels * 10
    output_index = base + channel * 9
    tl.store(output_index, tl.sum(t0, 0), mask=channel_valid)
    tl.store(output_index + 1, tl.sum(t1, 0), mask=channel_valid)
    tl.store(output_index + 2, tl.sum(t2, 0), mask=channel_valid)
    tl.store(output_index + 3, tl.sum(t3, 0), mask=channel_valid)
    tl.store(output_index + 4, tl.sum(t4, 0), mask=channel_valid)
    tl.store(output_index + 5, tl.sum(t5, 0), mask=channel_valid)
    tl.store(output_index + 6, tl.sum(t6, 0), mask=channel_valid)
    tl.store(output_index + 7, tl.sum(t7, 0), mask=channel_valid)
    tl.store(output_index + 8, tl.sum(t8, 0), mask=channel_valid)
    tl.store(base + channels * 9 + channel, tl.sum(t9, 0), mask=channel_valid)


@triton.jit
def reduce_taps(
    partial_sums, grad_taps, grad_constant, parts, channels: tl.constexpr, part_block: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    """Sums the parts of taps_backward in a fixed order, so that results are reproducible."""
    position, total = tl.program_id(0) * block + tl.arange(0, block), tl.zeros((part_block, block), tl.float32)
    for begin in range(0, parts, part_block):
        part = begin + tl.arange(0, part_block)
        inside = (part < parts)[:, None] & (position < channels * 10)[None, :]
        total += tl.load(partial_sums + part[:, None] * (channels * 10) + position[None, :], mask=inside, other=0.0)
    total_sum = tl.sum(total, 0)
    tl.store(grad_taps + position, total_sum, mask=position < channels * 9)
    tl.store(
        grad_constant + position - channels * 9, total_sum, mask=(position >= channels * 9) & (position < channels * 10)
    )


@triton.jit
def _lane_indices(rows: tl.constexpr, columns: tl.constexpr, lane, batch):
    """Returns the image, the group along both sides, the column in the group, and whether the lane is valid."""
    group, image = lane // columns[1] % (rows[2] * columns[2]), lane // (columns[1] * rows[2] * columns[2])
    return tl.cast(image, tl.int64), group // columns[2], group % columns[2], lane % columns[1], image < batch


@triton.jit
def _side_index(side: tl.constexpr, group, member):
    """Returns the index of a member along one side of the map, and whether it is valid."""
    position = side_index(side[1], side[2], group, member, side[3], side[4])
    return position, (member >= 0) & (member < side[1]) & (position < side[0])
