"""Polygons filled by COCO's rule: other fills give other masks, above all for small objects.

COCO rounds the corners to fifths of a pixel and walks along each edge in steps of one fifth, along x or y, whichever is
longer. Between fifth 2 and fifth 3 of a pixel the walk crosses the centre of a column: there it leaves one boundary
point, at the smaller y of the two steps, rounded up to whole pixels. In each column, the fill changes at every boundary
point. Here the crossings are computed per edge and column, without the walk.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths, merge

FIFTHS = 5
LARGEST = 1e8  # pixels; COCO computes with integers of 32 bits

Integers = NDArray[np.int64]


def fill_polygons(parts: Sequence[ArrayLike], height: int, width: int) -> RunLengths:
    """Return the union of filled polygons. parts: per polygon x1, y1, x2, y2, ... or an array of shape (corners, 2).

    Corners may be outside of the image. A pixel inside an even number of turns of one part is not set.
    """
    if not len(parts):
        raise UserError("an object has at least one polygon", expected="one or more polygons", got="none")
    return merge([_fill(_corners(part), height, width) for part in parts])


def _corners(part: ArrayLike) -> NDArray[np.float64]:
    flat = np.asarray(part, dtype=np.float64).reshape(-1)
    if len(flat) < 6 or len(flat) % 2:
        raise UserError(
            "a polygon has three corners or more", expected="x1, y1, x2, y2, ...", got=f"{len(flat)} numbers"
        )
    if not (np.abs(flat) <= LARGEST).all():
        raise UserError("the corners of a polygon are numbers of pixels", expected=f"at most {LARGEST:g}", got=flat)
    return flat.reshape(-1, 2)


def _fill(corners: NDArray[np.float64], height: int, width: int) -> RunLengths:
    begin = np.trunc(FIFTHS * corners + 0.5).astype(np.int64)
    end = np.roll(begin, -1, axis=0)
    distance = np.abs(end - begin)
    flat = distance[:, 0] >= distance[:, 1]
    along = np.where(flat, 0, 1)  # the axis along which the walk takes its steps
    edges = np.arange(len(begin))
    swap = (begin[edges, along] > end[edges, along])[:, None]
    begin, end = np.where(swap, end, begin), np.where(swap, begin, end)
    edge, column = _crossed_columns(begin[:, 0], end[:, 0], width)
    flat = flat[edge]
    y = np.empty(len(edge))
    y[flat] = _flat_crossings(begin[edge[flat]], end[edge[flat]], column[flat])
    y[~flat] = _steep_crossings(begin[edge[~flat]], end[edge[~flat]], column[~flat])
    row = np.ceil(np.clip((y + 0.5) / FIFTHS - 0.5, 0, height)).astype(np.int64)
    places, times = np.unique(column * height + row, return_counts=True)
    changes = places[times % 2 == 1]
    return RunLengths.from_changes(height, width, changes[changes < height * width])


def _crossed_columns(first: Integers, second: Integers, width: int) -> tuple[Integers, Integers]:
    """Return the edge and the column of each crossing: the edge has both fifths 2 and 3 of the column."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    lowest = np.maximum(-((2 - low) // FIFTHS), 0)  # division rounded up
    highest = np.minimum((high - 3) // FIFTHS, width - 1)
    number = np.maximum(highest - lowest + 1, 0)
    edge = np.repeat(np.arange(len(low)), number)
    before = np.cumsum(number) - number
    return edge, np.arange(len(edge)) - before[edge] + lowest[edge]


def _flat_crossings(begin: Integers, end: Integers, column: Integers) -> NDArray[np.float64]:
    """The walk takes steps along x: y is rounded at both fifths."""
    slope = (end[:, 1] - begin[:, 1]) / (end[:, 0] - begin[:, 0])
    step = FIFTHS * column + 2 - begin[:, 0]
    before, after = (np.trunc(begin[:, 1] + slope * (step + more) + 0.5) for more in (0, 1))
    lower: NDArray[np.float64] = np.minimum(before, after)
    return lower


def _steep_crossings(begin: Integers, end: Integers, column: Integers) -> NDArray[np.float64]:
    """The walk takes steps along y: return the y of the last step before the rounded x changes sides."""
    slope = (end[:, 0] - begin[:, 0]) / (end[:, 1] - begin[:, 1])
    left = FIFTHS * column + 2
    guess = np.rint((left + 0.5 - begin[:, 0]) / slope)
    # The guess is off by one at most; the rounded x of the steps around it gives the exact one.
    steps = guess[:, None] + np.arange(-3, 4)
    x = np.trunc(begin[:, :1] + slope[:, None] * steps + 0.5)
    same_side = np.where(slope[:, None] > 0, x <= left[:, None], x > left[:, None])
    last: NDArray[np.float64] = begin[:, 1] + guess - 4 + same_side.sum(axis=1)
    return last
