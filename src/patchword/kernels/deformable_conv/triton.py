# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Triton kernels for the columns of a deformable convolution and their gradients; reference.py computes the same.

One program computes some pairs of cell and tap. Channels are stored last, so that a pair reads four contiguous rows.
Sums are in float32. Import it only where Triton is installed.

Sizes of maps differ from batch to batch in multi-scale training, so that no kernel is compiled for their values.
"""

import triton
import triton.language as tl

_CHANGING = ["count", "height", "width"]


@triton.jit
def _places(offsets, count, height, width, taps: tl.constexpr, block: tl.constexpr):
    """Return the pairs of this program, which of them there are, the first cell of their image, the address of their
    vertical offset, and for each axis: the cell before the place, and the share of the cell after it."""
    pair = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    valid = pair < count
    tap, cell = pair % taps, (pair // taps) % (height * width)
    image = pair // (taps * height * width)
    at = (image * (2 * taps) + 2 * tap) * (height * width) + cell
    y = tl.load(offsets + at, valid, other=0.0).to(tl.float32) + (cell // width + tap // 3 - 1).to(tl.float32)
    x = tl.load(offsets + at + height * width, valid, other=0.0).to(tl.float32)
    x += (cell % width + tap % 3 - 1).to(tl.float32)
    y = tl.minimum(tl.maximum(y, -2.0), (height + 1).to(tl.float32))
    x = tl.minimum(tl.maximum(x, -2.0), (width + 1).to(tl.float32))
    low_y, low_x = tl.floor(y), tl.floor(x)
    return pair, valid, image * (height * width), at, low_y.to(tl.int32), low_x.to(tl.int32), y - low_y, x - low_x


@triton.jit
def _corner(corner: tl.constexpr, low_y, low_x, share_y, share_x, height, width):
    """Return one of the four cells around each place, whether it is in the map, and its weight along each axis."""
    down: tl.constexpr = corner // 2
    right: tl.constexpr = corner % 2
    row, column = low_y + down, low_x + right
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    weight_y = share_y if down else 1.0 - share_y
    weight_x = share_x if right else 1.0 - share_x
    return row * width + column, inside, weight_y, weight_x


@triton.jit(do_not_specialize=_CHANGING)
def gather(
    features, offsets, columns, count, height, width, channels: tl.constexpr, taps: tl.constexpr, block: tl.constexpr,
    channel_block: tl.constexpr,
):  # fmt: skip
    """Write what each tap reads. features: (batch, cells, channels). columns: (batch, cells, taps, channels)."""
    pair, valid, image, _, low_y, low_x, share_y, share_x = _places(offsets, count, height, width, taps, block)
    channel = tl.program_id(1) * channel_block + tl.arange(0, channel_block)
    known = channel < channels
    total = tl.zeros((block, channel_block), tl.float32)
    for corner in tl.static_range(4):
        cell, inside, weight_y, weight_x = _corner(corner, low_y, low_x, share_y, share_x, height, width)
        source = features + (image + cell)[:, None] * channels + channel[None, :]
        value = tl.load(source, (valid & inside)[:, None] & known[None, :], other=0.0).to(tl.float32)
        total += value * (weight_y * weight_x)[:, None]
    target = columns + pair[:, None] * channels + channel[None, :]
    tl.store(target, total.to(columns.dtype.element_ty), valid[:, None] & known[None, :])


@triton.jit(do_not_specialize=_CHANGING)
def scatter(
    features, offsets, slopes, feature_slopes, offset_slopes, count, height, width, channels: tl.constexpr,
    taps: tl.constexpr, block: tl.constexpr, channel_block: tl.constexpr,
):  # fmt: skip
    """Add the gradient of the columns to the cells that they were read from, and write that of the offsets.

    slopes: (batch, cells, taps, channels). feature_slopes: like features, in float32, filled with zeros.
    """
    pair, valid, image, at, low_y, low_x, share_y, share_x = _places(offsets, count, height, width, taps, block)
    along_y, along_x = tl.zeros((block,), tl.float32), tl.zeros((block,), tl.float32)
    for start in range(0, channels, channel_block):
        channel = start + tl.arange(0, channel_block)
        known = channel < channels
        mask = valid[:, None] & known[None, :]
        slope = tl.load(slopes + pair[:, None] * channels + channel[None, :], mask, other=0.0).to(tl.float32)
        for corner in tl.static_range(4):
            cell, inside, weight_y, weight_x = _corner(corner, low_y, low_x, share_y, share_x, height, width)
            used = mask & inside[:, None]
            place = (image + cell)[:, None] * channels + channel[None, :]
            value = tl.load(features + place, used, other=0.0).to(tl.float32)
            tl.atomic_add(feature_slopes + place, slope * (weight_y * weight_x)[:, None], used, sem="relaxed")
            product = tl.sum(slope * value, axis=1)
            along_y += product * weight_x * (1.0 if corner // 2 else -1.0)
            along_x += product * weight_y * (1.0 if corner % 2 else -1.0)
    tl.store(offset_slopes + at, along_y.to(offset_slopes.dtype.element_ty), valid)
    tl.store(offset_slopes + at + height * width, along_x.to(offset_slopes.dtype.element_ty), valid)
