"""Draws a map of tokens, coloured by the group in which they attend to each other."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Rectangle

from patchword.reports.colors import GREY, HIGHLIGHT, INK

PADDING = -1  # the hatch of a position outside the map; the others are regions of a group
HATCHES = {0: "", 1: "/////", 2: "\\\\\\\\\\", 3: "xxxxx", PADDING: "...."}
OUTSIDE = ("#f3f5f7", GREY)  # face and dots of the padding

_CELLS = 24  # larger maps have no lines between cells


@dataclass(frozen=True)
class TokenMap:
    """A map of tokens to draw: arrays of (rows, columns), for colours (rows, columns, 3)."""

    colours: np.ndarray
    groups: np.ndarray  # a light line separates cells of different groups
    outlined: np.ndarray  # a dark line surrounds these
    hatches: np.ndarray  # indices of HATCHES
    token: tuple[int, int] | None = None  # the query
    leading: str = ""  # the name of the leading tokens, if there are any
    frame: tuple[int, int, int, int] | None = None  # left, top, width, height of an example
    indirect: bool = False  # some tokens are reached through an earlier block

    @property
    def leading_cell(self) -> float:
        """The side of a leading token's cell, which is above the map."""
        return float(max(self.groups.shape) / 13) if self.leading else 0.0

    @property
    def tall(self) -> float:
        """Height over width of the whole drawing."""
        rows, columns = self.groups.shape
        return float((rows + 1.6 * self.leading_cell) / columns)


def draw(axes: Axes, shown: TokenMap) -> None:
    """Draw a map."""
    rows, columns = shown.groups.shape
    edge = 0.006 * max(rows, columns)  # half the width of a line
    top = -1.6 * shown.leading_cell - edge
    axes.set(aspect="equal", anchor="NW", xlim=(-edge, columns + edge), ylim=(rows + edge, top))
    axes.axis("off")
    _fill(axes, shown)
    _hatch(axes, shown.hatches)
    if max(rows, columns) <= _CELLS:
        cells = np.arange(rows * columns).reshape(rows, columns)
        _lines(axes, np.where(shown.hatches == PADDING, -1, cells), "white", 0.4)
    _lines(axes, shown.groups, "white", 1.1 if max(rows, columns) <= 2 * _CELLS else 0.7)
    _lines(axes, shown.outlined, INK, 1.4)
    if shown.frame:
        _frame(axes, *shown.frame)
    if shown.token:
        _mark(axes, *shown.token, size=max(rows, columns))
    if shown.leading:
        _lead(axes, shown.leading, shown.leading_cell)


def _fill(axes: Axes, shown: TokenMap) -> None:
    """Draw equal neighbours as one rectangle, which keeps the file small and without seams."""
    flat = (shown.colours * 255).round().astype(np.int64) @ np.array([65536, 256, 1])
    flat = np.where(shown.hatches == PADDING, -1, flat)
    found = [cells for cells in _rectangles(flat) if cells[0] >= 0]
    colours = [shown.colours[row, column] for _, row, column, _, _ in found]
    corners = [_corners(*cells) for _, *cells in found]
    axes.add_collection(PolyCollection(corners, facecolors=colours, edgecolors=colours, linewidths=0.3))


def _hatch(axes: Axes, hatches: np.ndarray) -> None:
    found = list(_rectangles(hatches))
    for number in {value for value, *_ in found if value}:
        corners = [_corners(*cells) for value, *cells in found if value == number]
        face, edge = OUTSIDE if number == PADDING else ("none", "white")
        axes.add_collection(
            PolyCollection(corners, facecolors=face, edgecolors=edge, linewidths=0, hatch=HATCHES[number])
        )


def _lines(axes: Axes, labels: np.ndarray, colour: str, width: float) -> None:
    axes.add_collection(LineCollection(_borders(labels), colors=colour, linewidths=width, capstyle="projecting"))


def _mark(axes: Axes, row: int, column: int, size: int) -> None:
    """Draw the cell of the query; around a small one, a ring."""
    axes.add_patch(Rectangle((column, row), 1, 1, facecolor=INK, edgecolor="white", linewidth=0.5, zorder=4))
    if size > _CELLS:
        middle = ([column + 0.5], [row + 0.5])
        for colour, width in (("white", 3.2), (INK, 1.5)):
            ring = axes.plot(*middle, "o", markersize=11, fillstyle="none", markeredgecolor=colour)[0]
            ring.set(markeredgewidth=width, clip_on=False, zorder=4)


def _frame(axes: Axes, left: int, top: int, width: int, height: int) -> None:
    """Draw dashes on white, visible on every colour."""
    under, over = (Rectangle((left, top), width, height, fill=False, zorder=3) for _ in range(2))
    under.set(edgecolor="white", linewidth=2.6)
    over.set(edgecolor=INK, linewidth=1.3, linestyle=(0, (2.4, 1.2)))
    axes.add_patch(under)
    axes.add_patch(over)


def _lead(axes: Axes, name: str, cell: float) -> None:
    """Draw the leading tokens above the map, on which they have no position."""
    axes.add_patch(Rectangle((0, -1.6 * cell), cell, cell, facecolor=HIGHLIGHT, edgecolor=INK, linewidth=1.4))
    axes.text(1.4 * cell, -1.1 * cell, name, va="center", size=12)


def _corners(row: int, column: int, height: int, width: int) -> list[tuple[int, int]]:
    bottom, right = row + height, column + width
    return [(column, row), (right, row), (right, bottom), (column, bottom)]


def _rectangles(values: np.ndarray) -> Iterator[tuple[int, int, int, int, int]]:
    """Split a map into rectangles of one value: value, row, column, height, width."""
    left = np.ones_like(values, dtype=bool)
    for row, column in np.ndindex(values.shape):
        if left[row, column]:
            value = values[row, column]
            width = _run((values[row, column:] == value) & left[row, column:])
            height = _run((values[row:, column : column + width] == value).all(1))
            left[row : row + height, column : column + width] = False
            yield int(value), row, column, height, width


def _run(same: np.ndarray) -> int:
    """Return the number of leading True values."""
    return len(same) if same.all() else int(same.argmin())


def _borders(labels: np.ndarray) -> list[list[tuple[int, int]]]:
    """Return lines between cells of different labels, and around the map where a label is not 0."""
    framed = np.pad(labels.astype(np.int64), 1)
    lines = []
    for across, turned in ((False, framed), (True, framed.T)):
        differs = turned[1:, 1:-1] != turned[:-1, 1:-1]
        for line, cells in enumerate(differs):
            edges = np.flatnonzero(np.diff(np.pad(cells.astype(np.int8), 1)))
            for start, end in edges.reshape(-1, 2).tolist():
                points = [(start, line), (end, line)]
                lines.append([(y, x) for x, y in points] if across else points)
    return lines
