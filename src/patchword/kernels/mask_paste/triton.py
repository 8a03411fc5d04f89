# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""A Triton kernel that pastes masks into the image and compares them with a threshold; reference.py computes the same.

One program writes a rectangle of pixels of one mask, one byte each. Only programs whose rectangle meets the box read
the mask. Import it only where Triton is installed.

Positions are rounded as in the reference, without fused multiply-adds: a pixel at the threshold could change.
"""

import triton
import triton.language as tl


@triton.jit
def _positions(start, end, pixel, cells: tl.constexpr, rounded: tl.constexpr):
    """Return the position of each pixel in cells of the mask, and whether the box has it.

    rounded: the mask has one cell of zeros on each side, which `cells` counts; pixels from `start` to `end` are inside.
    """
    if rounded:
        place = pixel.to(tl.float32) - start
        length = tl.maximum(end - start + 1.0, 1.0)
        at = (place + 0.5) * (tl.div_rn(tl.full([], 1.0, tl.float32), length) * cells) - 0.5
        at = tl.minimum(tl.maximum(at, 0.0), cells - 1.0)
        inside = (place >= 0.0) & (place < length)
    else:
        length = end - start
        at = tl.div_rn((pixel.to(tl.float32) + 0.5) - start, tl.where(length > 0.0, length, 1.0)) * cells - 0.5
        inside = (at > -1.0) & (at < tl.where(length > 0.0, cells + 0.0, -1.0))  # an empty box has no pixel
    return at, inside


@triton.jit
def _cells(at, cells: tl.constexpr, border: tl.constexpr):
    """Return the two neighbouring cells of each position without the border, whether they are in the mask, and their
    weights."""
    below = tl.floor(at)
    lower, cells_inside = below.to(tl.int32) - border, cells - 2 * border
    has_lower, has_upper = (lower >= 0) & (lower < cells_inside), (lower >= -1) & (lower < cells_inside - 1)
    return lower, has_lower, has_upper, 1.0 - (at - below), 1.0 - (below + 1.0 - at)


@triton.jit
def _row(masks, x, inside, y, has_y, columns: tl.constexpr):
    """Return the mask at whole rows, for the cells x, of (pixels of y, pixels of x)."""
    return tl.load(masks + y[:, None] * columns + x[None, :], has_y[:, None] & inside[None, :], other=0.0).to(
        tl.float32
    )


@triton.jit(do_not_specialize=["height"])
def paste_binary(
    masks, boxes, output, height, width, threshold, rows: tl.constexpr, columns: tl.constexpr, rounded: tl.constexpr,
    y_block: tl.constexpr, x_block: tl.constexpr,
):  # fmt: skip
    """Write 1 where the interpolated mask is at least the threshold, or above it if `rounded`; 0 elsewhere.

    masks: (count, rows, columns). boxes: (count, 4), final corners in float32. output: (count, height, width), bytes
    """
    border: tl.constexpr = 1 if rounded else 0
    number = tl.program_id(0).to(tl.int64)
    y, x = tl.program_id(1) * y_block + tl.arange(0, y_block), tl.program_id(2) * x_block + tl.arange(0, x_block)
    corners = boxes + number * 4
    x1, y1, x2, y2 = tl.load(corners), tl.load(corners + 1), tl.load(corners + 2), tl.load(corners + 3)
    at_y, inside_y = _positions(y1, y2, y, rows + 2 * border, rounded)
    at_x, inside_x = _positions(x1, x2, x, columns + 2 * border, rounded)
    found = tl.zeros([y_block, x_block], tl.uint8)
    if (tl.max(inside_y.to(tl.int32), 0) > 0) & (tl.max(inside_x.to(tl.int32), 0) > 0):
        base = masks + number * (rows * columns)
        y0, has_y0, has_y1, low_y, high_y = _cells(at_y, rows + 2 * border, border)
        x0, has_x0, has_x1, low_x, high_x = _cells(at_x, columns + 2 * border, border)
        left = _row(base, x0, has_x0, y0, has_y0, columns) * low_y[:, None]
        left += _row(base, x0, has_x0, y0 + 1, has_y1, columns) * high_y[:, None]
        right = _row(base, x0 + 1, has_x1, y0, has_y0, columns) * low_y[:, None]
        right += _row(base, x0 + 1, has_x1, y0 + 1, has_y1, columns) * high_y[:, None]
        value = left * low_x[None, :] + right * high_x[None, :]
        passes = (value > threshold) if rounded else (value >= threshold)
        found = (passes & inside_y[:, None] & inside_x[None, :]).to(tl.uint8)
    target = output + number * height * width + y[:, None] * width + x[None, :]
    tl.store(target, found, (y < height)[:, None] & (x < width)[None, :])
