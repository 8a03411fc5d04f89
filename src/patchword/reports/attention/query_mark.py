"""Marks the query on an image and on its maps: a frame around a patch or all patches, or a square for [CLS]."""

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from patchword.analysis.attention.geometry import Cell
from patchword.reports.colors import QUERY

MARK = "query"  # the label of the mark
Sides = tuple[int, int]


class QueryMark:
    """Draws the mark of one query. sides: height and width of the image. at: column and row of the query pixel.

    has_token: whether the query is [CLS], which has no place in the image: its square is above the corner. square: the
    side of this square, as a fraction of the longer side of the image
    """

    def __init__(self, sides: Sides, at: tuple[int, int] | None, has_token: bool, square: float = 0.09) -> None:
        self.sides, self.at, self.has_token, self.square = sides, at, has_token, square

    def draw(self, axes: Axes, cell: Cell, corner: tuple[float, float] = (-0.5, -0.5), scale: float = 1.0) -> None:
        """Draw the mark on a panel. corner: its left and top. scale: units of the axes per pixel of the image."""
        height, width = self.sides
        left, top, wide, high = 0.0, 0.0, float(width), float(height)
        if self.at is not None:
            left, top = (part // size * size for part, size in zip(self.at, (cell[1], cell[0]), strict=True))
            wide, high = min(cell[1], width - left), min(cell[0], height - top)
        elif self.has_token:
            wide = high = self.square * max(self.sides)
            top = -1.2 * high
        place = (corner[0] + scale * left, corner[1] + scale * top)
        filled = self.at is None and self.has_token
        sides = scale * wide, scale * high
        axes.add_patch(Rectangle(place, *sides, fill=False, edgecolor="white", linewidth=4.2, clip_on=False, zorder=4))
        shape = Rectangle(place, *sides, edgecolor=QUERY, linewidth=2.2, clip_on=False, label=MARK, zorder=5)
        shape.set_facecolor(QUERY if filled else "none")
        axes.add_patch(shape)
