"""Outlines of the regions of a label map as polygons. Filling them gives exactly the regions back.

The corners lie on the corners of pixels. A region is connected by the sides of its pixels. It has one polygon: the
outline, then each hole, which the walk enters and leaves on the same line. This line is passed twice, so that the rule
of an odd number of crossings, by which `fill_polygons` fills, does not see it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
_ENDS = ((1, 0), (1, 1), (0, 1), (0, 0))  # x, y of the end of the top, right, bottom and left side of a pixel


class Region(NamedTuple):
    """A connected region of one label. polygon: (corners, 2) as x, y. box: x1, y1, x2, y2. area: in pixels."""

    label: int
    polygon: Integers
    box: tuple[int, int, int, int]
    area: int


def connected_regions(labels: NDArray[np.uint8]) -> Integers:
    """Number the connected regions of equal labels: (height, width), from 0 in the order of their first pixels."""
    height, width = labels.shape
    starts = np.ones((height, width), dtype=bool)
    starts[:, 1:] = labels[:, 1:] != labels[:, :-1]
    runs: Integers = starts.reshape(-1).cumsum().reshape(height, width) - 1
    same = labels[1:] == labels[:-1]
    upper, lower = runs[:-1][same], runs[1:][same]
    parent = np.arange(int(runs.max()) + 1)
    while True:  # each root is attached to the smallest root that it touches
        smaller = np.minimum(parent[upper], parent[lower])
        joined = parent.copy()
        np.minimum.at(joined, parent[upper], smaller)
        np.minimum.at(joined, parent[lower], smaller)
        joined = joined[joined]
        if np.array_equal(joined, parent):
            break
        parent = joined
    _, numbers = np.unique(parent, return_inverse=True)
    found: Integers = numbers[runs].astype(np.int64)
    return found


def trace_regions(labels: NDArray[np.uint8]) -> list[Region]:
    """Return the connected regions of a label map, in the order of their first pixels."""
    regions = connected_regions(labels)
    count, width = int(regions.max()) + 1, labels.shape[1]
    areas = np.bincount(regions.reshape(-1), minlength=count)
    firsts = np.unique(regions.reshape(-1), return_index=True)[1]
    rings: list[list[Integers]] = [[] for _ in range(count)]
    for pixel, ring in _rings(labels):
        rings[int(regions[pixel // width, pixel % width])].append(ring)
    found = []
    for number, parts in enumerate(rings):
        ordered = sorted(parts, key=lambda part: -int(np.ptp(part, axis=0).prod()))  # the outline is the largest
        (x1, y1), (x2, y2) = ordered[0].min(0).tolist(), ordered[0].max(0).tolist()
        label = int(labels.reshape(-1)[firsts[number]])
        found.append(Region(label, _joined(ordered), (x1, y1, x2, y2), int(areas[number])))
    return found


def _joined(rings: list[Integers]) -> Integers:
    """Join the outline and its holes to one closed walk: to each hole, around it, and back."""
    outer, *holes = rings
    walk = [outer, *([outer[:1]] if holes else [])]
    for hole in holes:
        walk += [hole, hole[:1], outer[:1]]
    return np.concatenate(walk[:-1] if holes else walk)  # the polygon closes itself


def _rings(labels: NDArray[np.uint8]) -> list[tuple[int, Integers]]:
    """Return the closed boundaries: a pixel of the region, and the corners, with the region at the right hand."""
    following, is_side = _following(labels)
    height, width = labels.shape
    size, left = height * width, is_side.copy()
    found = []
    for start in np.flatnonzero(is_side).tolist():
        if not left[start]:
            continue
        walk, side = [], start
        while left[side]:
            left[side] = False
            walk.append(side)
            side = int(following[side])
        sides = np.array(walk)
        direction, pixel = sides // size, sides % size
        turns = direction != np.roll(direction, -1)  # corners are where the direction changes
        ends = np.array(_ENDS)[direction[turns]]
        corners = np.stack((pixel[turns] % width, pixel[turns] // width), axis=1) + ends
        found.append((int(pixel[0]), corners.astype(np.int64)))
    return found


def _following(labels: NDArray[np.uint8]) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the side that follows each side of each pixel clockwise, and which sides are boundaries.

    Sides are numbered: top, right, bottom and left sides of all pixels. The next side is, in this order: that of the
    same pixel, if its neighbour in the direction of the walk is of another region; the same side of that neighbour; or
    the side before it of the neighbour's neighbour, around the corner.
    """
    height, width = labels.shape
    size = height * width
    framed = np.full((height + 2, width + 2), -1, dtype=np.int64)
    framed[1:-1, 1:-1] = labels
    own = framed[1:-1, 1:-1]
    pixel = np.arange(size).reshape(height, width)
    steps = ((0, 1), (1, 0), (0, -1), (-1, 0))  # row and column of the walk along top, right, bottom and left

    def moved(row: int, column: int) -> Integers:
        return framed[1 + row : 1 + row + height, 1 + column : 1 + column + width]

    following, is_side = np.empty((4, height, width), dtype=np.int64), np.empty((4, height, width), dtype=bool)
    for side, (row, column) in enumerate(steps):
        out_row, out_column = -column, row  # the direction out of the region
        is_side[side] = moved(out_row, out_column) != own
        ahead = moved(row, column) == own
        around = ahead & (moved(row + out_row, column + out_column) == own)
        following[side] = np.where(ahead, side * size + pixel + row * width + column, (side + 1) % 4 * size + pixel)
        corner = (side + 3) % 4 * size + pixel + (row + out_row) * width + column + out_column
        following[side] = np.where(around, corner, following[side])
    return following.reshape(-1), is_side.reshape(-1)
