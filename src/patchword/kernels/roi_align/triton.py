# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Triton kernels for RoIAlign over a pyramid and for its gradient; reference.py computes the same.

One program computes one row of bins of one box, for a block of channels. It reads the level of its box, so that one
launch serves all images and all levels and no box is computed on a level that it does not read. Sums are in float32.
Import it only where Triton is installed.

Sizes of maps differ from batch to batch in multi-scale training, so that no kernel is compiled for their values.
"""

import triton
import triton.language as tl

from patchword.kernels.roi_align.sampling_triton import bilinear, row_of_bins, tile

_SIZES = [f"{name}{level}" for level in range(5) for name in ("height", "width")]
_CHANGING = ["boxes_per_image", "images_per_batch", *_SIZES]


@triton.jit
def _read_sample(
    total, base, along_y, along_x, sample_y, sample_x, height, width, valid, channel, channels: tl.constexpr,
    channels_last: tl.constexpr,
):  # fmt: skip
    offsets, weights, mask = bilinear(
        along_y, along_x, sample_y, sample_x, height, width, valid, channel, channels, channels_last
    )
    for corner in tl.static_range(4):
        total += tl.load(base + offsets[corner], mask, other=0.0).to(tl.float32) * weights[corner]
    return total


@triton.jit
def _write_sample(
    slope, base, along_y, along_x, sample_y, sample_x, height, width, valid, channel, channels: tl.constexpr,
    channels_last: tl.constexpr,
):  # fmt: skip
    offsets, weights, mask = bilinear(
        along_y, along_x, sample_y, sample_x, height, width, valid, channel, channels, channels_last
    )
    for corner in tl.static_range(4):
        tl.atomic_add(base + offsets[corner], slope * weights[corner], mask, sem="relaxed")


@triton.jit(do_not_specialize=_CHANGING)
def pool(
    map0, map1, map2, map3, map4, boxes, levels, output, boxes_per_image, images_per_batch, height0, width0, height1,
    width1, height2, width2, height3, width3, height4, width4, stride0, stride1, stride2, stride3, stride4,
    number_of_levels: tl.constexpr, channels: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
    aligned: tl.constexpr, samples: tl.constexpr, channels_last: tl.constexpr, column_block: tl.constexpr,
    channel_block: tl.constexpr, indexed: tl.constexpr,
):  # fmt: skip
    """Write the mean of the samples of each bin. The output has the layout of the maps.

    levels: the level of each box; if `indexed`, which of the `images_per_batch` maps of its image it reads.
    samples: per bin and axis; 0 is ceil(bin size).
    """
    base, height, width, along_y, along_x, count, used = row_of_bins(
        boxes, levels, boxes_per_image, images_per_batch, map0, map1, map2, map3, map4, height0, width0, height1,
        width1, height2, width2, height3, width3, height4, width4, stride0, stride1, stride2, stride3, stride4,
        number_of_levels, channels, rows, columns, aligned, samples, indexed, column_block,
    )  # fmt: skip
    column, channel = tl.arange(0, column_block), tl.program_id(1) * channel_block + tl.arange(0, channel_block)
    used_column, valid_channel = tile(column < used, channel < channels, channels_last)
    valid = used_column & valid_channel
    total = tl.zeros(valid.shape, tl.float32)
    if samples == 0:
        for next_y in range(along_y[4]):
            for next_x in range(along_x[4]):
                sample_y, sample_x = along_y[3] + next_y, along_x[3] + next_x
                within, _ = tile(sample_x < along_x[2], channel, channels_last)
                total = _read_sample(total, base, along_y, along_x, sample_y, sample_x, height, width, valid & within,
                                     channel, channels, channels_last)  # fmt: skip
    else:
        for sample in tl.static_range(samples * samples):
            total = _read_sample(total, base, along_y, along_x, sample // samples, sample % samples, height, width,
                                 valid, channel, channels, channels_last)  # fmt: skip
    box, row = tl.program_id(0) // rows, tl.program_id(0) % rows
    to_column, to_channel = tile(row * columns + column, channel, channels_last)
    column_step: tl.constexpr = channels if channels_last else 1
    channel_step: tl.constexpr = 1 if channels_last else rows * columns
    place = to_column * column_step + to_channel * channel_step
    target = output + box.to(tl.int64) * (channels * rows * columns) + place
    valid_column, _ = tile(column < columns, channel, channels_last)
    tl.store(target, (total / count).to(output.dtype.element_ty), valid_column & valid_channel)


@triton.jit(do_not_specialize=[*_CHANGING, "box_step", "row_step"])
def scatter(
    map0, map1, map2, map3, map4, boxes, levels, gradient, boxes_per_image, images_per_batch, height0, width0, height1,
    width1, height2, width2, height3, width3, height4, width4, stride0, stride1, stride2, stride3, stride4, box_step,
    channel_step, row_step, column_step, number_of_levels: tl.constexpr, channels: tl.constexpr, rows: tl.constexpr,
    columns: tl.constexpr, aligned: tl.constexpr, samples: tl.constexpr, channels_last: tl.constexpr,
    column_block: tl.constexpr, channel_block: tl.constexpr,
):  # fmt: skip
    """Add the gradient of each bin to the cells that it was sampled from. map0 to map4: float32, filled with zeros.

    The steps are the strides of the gradient, which has any layout.
    """
    base, height, width, along_y, along_x, count, used = row_of_bins(
        boxes, levels, boxes_per_image, images_per_batch, map0, map1, map2, map3, map4, height0, width0, height1,
        width1, height2, width2, height3, width3, height4, width4, stride0, stride1, stride2, stride3, stride4,
        number_of_levels, channels, rows, columns, aligned, samples, False, column_block,
    )  # fmt: skip
    column, channel = tl.arange(0, column_block), tl.program_id(1) * channel_block + tl.arange(0, channel_block)
    used_column, valid_channel = tile(column < used, channel < channels, channels_last)
    valid = used_column & valid_channel
    box, row = tl.program_id(0) // rows, tl.program_id(0) % rows
    from_column, from_channel = tile(column * column_step, channel * channel_step, channels_last)
    source = gradient + box.to(tl.int64) * box_step + row * row_step + (from_column + from_channel)
    slope = tl.load(source, valid, other=0.0).to(tl.float32) / count
    if samples == 0:
        for next_y in range(along_y[4]):
            for next_x in range(along_x[4]):
                sample_y, sample_x = along_y[3] + next_y, along_x[3] + next_x
                within, _ = tile(sample_x < along_x[2], channel, channels_last)
                _write_sample(slope, base, along_y, along_x, sample_y, sample_x, height, width, valid & within,
                              channel, channels, channels_last)  # fmt: skip
    else:
        for sample in range(samples * samples):
            _write_sample(slope, base, along_y, along_x, sample // samples, sample % samples, height, width, valid,
                          channel, channels, channels_last)  # fmt: skip
