"""Slides: figures of 16:9 with a title, in type that is legible at the back of a room."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from patchword.reports.colors import INK, TEXT
from patchword.reports.plots.text_width import fitting_size, wrapped

WIDTH, HEIGHT, MARGIN = 40 / 3, 7.5, 0.45  # inches, as in programs for slides
TITLE, SUBTITLE, HEADING, NOTE = 24, 16, 15, 13  # points
TOP = 1.35  # inches of the title and two lines below it
Box = tuple[float, float, float, float]


class Slide(Figure):
    """A figure that is saved at exactly its size. Places are in inches from the upper left corner."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        super().__init__(figsize=(WIDTH, HEIGHT))
        inside = WIDTH - 2 * MARGIN
        self.words(MARGIN, 0.3, title, size=fitting_size(title, inside, TITLE, bold=True), weight="bold", color=INK)
        lines = subtitle.split("\n")
        size = max(NOTE, min(fitting_size(line, inside, SUBTITLE) for line in lines))
        self.words(MARGIN, 0.82, "\n".join(wrapped(line, inside, size) for line in lines), size=size, color=TEXT)

    def words(self, left: float, top: float, text: str, **style: Any) -> None:
        """Write text below `top`, to the right of `left`, unless `style` has another alignment."""
        self.text(left / WIDTH, 1 - top / HEIGHT, text, **{"va": "top", **style})

    def area(self, box: Box) -> Axes:
        """Return axes at left, top, width, height."""
        left, top, width, height = box
        return self.add_axes((left / WIDTH, 1 - (top + height) / HEIGHT, width / WIDTH, height / HEIGHT))

    def foot(self, handles: Sequence[Any]) -> None:
        """Draw the legend in the last line."""
        corner = (MARGIN / WIDTH, 0.2 / HEIGHT)
        look = {"fontsize": NOTE, "columnspacing": 1.4, "handlelength": 1.6, "borderpad": 0.0}
        self.legend(handles=handles, loc="lower left", bbox_to_anchor=corner, ncols=len(handles), **look)
