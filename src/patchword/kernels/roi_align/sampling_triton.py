# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Where a row of bins is sampled: the part that the RoIAlign kernel and its gradient share.

Import it only where Triton is installed.
"""

import triton
import triton.language as tl

_MOST_SAMPLES = tl.constexpr(1.0e9)  # so that a number of samples fits 32 bits


@triton.jit
def _select_map(
    level, map0, map1, map2, map3, map4, height0, width0, height1, width1, height2, width2, height3, width3,
    height4, width4, stride0, stride1, stride2, stride3, stride4,
):  # fmt: skip
    """Return the map of a level, its height, its width and its stride; those of level 0 for an unknown level."""
    base, height, width, stride = map0, height0, width0, stride0
    if level == 1:
        base, height, width, stride = map1, height1, width1, stride1
    if level == 2:
        base, height, width, stride = map2, height2, width2, stride2
    if level == 3:
        base, height, width, stride = map3, height3, width3, stride3
    if level == 4:
        base, height, width, stride = map4, height4, width4, stride4
    return base, height, width, stride


@triton.jit
def _bin_samples(
    corners, axis: tl.constexpr, stride, index, bins: tl.constexpr, aligned: tl.constexpr, samples: tl.constexpr
):
    """Return the start of each bin along one axis, the gap between samples, and the number of samples (float32).

    corners: pointer to (x1, y1, x2, y2). axis: 0 is x, 1 is y. samples: 0 is ceil(bin size).
    """
    start = tl.div_rn(tl.load(corners + axis).to(tl.float32), stride)
    end = tl.div_rn(tl.load(corners + axis + 2).to(tl.float32), stride)
    if aligned:
        start, end = start - 0.5, end - 0.5
        length = end - start
    else:
        length = tl.maximum(end - start, 1.0)
    step = tl.div_rn(length, tl.full([], bins, tl.float32))
    if samples == 0:
        count = tl.minimum(tl.maximum(tl.ceil(step), 0.0), _MOST_SAMPLES)
    else:
        count = tl.full([], samples, tl.float32)
    gap = tl.div_rn(step, tl.maximum(count, 1.0))
    return start + index.to(tl.float32) * step, gap, count


@triton.jit
def _visible_samples(first, gap, count, cells):
    """Return the first adaptive sample of each bin that may lie on the map, and the number of samples from there on.

    A box much larger than the map has millions of samples, nearly all of them outside.
    """
    safe = tl.maximum(gap, 1e-30)
    low = tl.minimum(tl.maximum(tl.ceil((-1.0 - first) / safe - 0.5) - 1.0, 0.0), count)
    high = tl.minimum(tl.maximum(tl.floor((cells - first) / safe - 0.5) + 2.0, 0.0), count)
    return low, tl.maximum(high - low, 0.0)


@triton.jit
def _neighbours(first, gap, sample, cells):
    """Return whether a sample counts, the cells below and above it, and the weight of the cell above."""
    at = first + (sample + 0.5) * gap
    inside = (at >= -1.0) & (at <= cells)
    at = tl.minimum(tl.maximum(at, 0.0), cells - 1.0)
    below = tl.floor(at)
    above = tl.minimum(below + 1.0, cells - 1.0)
    return inside, below.to(tl.int32), above.to(tl.int32), at - below


@triton.jit
def tile(of_columns, of_channels, channels_last: tl.constexpr):
    """Return both as parts of a tile, whose last dimension is the one that is contiguous in memory."""
    column_tile = of_columns[:, None] if channels_last else of_columns[None, :]
    channel_tile = of_channels[None, :] if channels_last else of_channels[:, None]
    return column_tile, channel_tile


@triton.jit
def row_of_bins(
    boxes, levels, boxes_per_image, images_per_batch, map0, map1, map2, map3, map4, height0, width0, height1, width1,
    height2, width2, height3, width3, height4, width4, stride0, stride1, stride2, stride3, stride4,
    number_of_levels: tl.constexpr, channels: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
    aligned: tl.constexpr, samples: tl.constexpr, indexed: tl.constexpr, column_block: tl.constexpr,
):  # fmt: skip
    """Return the map of the program's image, its sides, the samples along y and x, their number per bin, and the number
    of bins that read the map: none if the level of the box is unknown.

    Samples along an axis: the start of each bin, the gap between two samples, their number; then the first that may lie
    on the map, and how many are visited from there on.
    """
    box, row = tl.program_id(0) // rows, tl.program_id(0) % rows
    chosen, image = tl.load(levels + box).to(tl.int32), box // boxes_per_image
    if indexed:
        found = (chosen >= 0) & (chosen < images_per_batch)
        level, image = 0, image * images_per_batch + tl.where(found, chosen, 0)
    else:
        level, found = chosen, (chosen >= 0) & (chosen < number_of_levels)
    base, height, width, stride = _select_map(
        level, map0, map1, map2, map3, map4, height0, width0, height1, width1, height2, width2, height3, width3,
        height4, width4, stride0, stride1, stride2, stride3, stride4,
    )  # fmt: skip
    column, corners = tl.arange(0, column_block), boxes + box.to(tl.int64) * 4
    first_y, gap_y, count_y = _bin_samples(corners, 1, stride, row, rows, aligned, samples)
    first_x, gap_x, count_x = _bin_samples(corners, 0, stride, column, columns, aligned, samples)
    used = tl.where(found, columns, 0)
    low_y, number_y = _visible_samples(first_y, gap_y, count_y, height)
    low_x, number_x = _visible_samples(first_x, gap_x, count_x, width)
    number_y = tl.where(found, number_y, 0.0).to(tl.int32)
    number_x = tl.max(tl.where(column < used, number_x, 0.0), 0).to(tl.int32)
    base += image.to(tl.int64) * (channels * height * width)
    along_y, along_x = (first_y, gap_y, count_y, low_y, number_y), (first_x, gap_x, count_x, low_x, number_x)
    return base, height, width, along_y, along_x, tl.maximum(count_y * count_x, 1.0), used


@triton.jit
def bilinear(
    along_y, along_x, sample_y, sample_x, height, width, valid, channel, channels: tl.constexpr,
    channels_last: tl.constexpr,
):  # fmt: skip
    """Return the offsets of the four cells around a sample, their weights, and which elements of the tile count."""
    inside_y, y0, y1, up_y = _neighbours(along_y[0], along_y[1], sample_y, height)
    inside_x, x0, x1, up_x = _neighbours(along_x[0], along_x[1], sample_x, width)
    if channels_last:
        cell_step, channel_step = channels, 1
    else:
        cell_step, channel_step = 1, height * width
    left, of_channel = tile(x0 * cell_step, channel * channel_step, channels_last)
    right, _ = tile(x1 * cell_step, channel, channels_last)
    share, _ = tile(up_x, channel, channels_last)
    inside, _ = tile(inside_x, channel, channels_last)
    below, above = y0 * width * cell_step + of_channel, y1 * width * cell_step + of_channel
    offsets = (below + left, below + right, above + left, above + right)
    upper = tl.where(inside_y, up_y, 0.0)
    lower = tl.where(inside_y, 1.0 - up_y, 0.0)
    weights = (lower * (1.0 - share), lower * share, upper * (1.0 - share), upper * share)
    return offsets, weights, valid & inside
