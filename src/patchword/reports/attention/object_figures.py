"""Figures of what the queries of a detector attend to, with the boxes they became."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from patchword.inspection.attention_objects import ObjectAttention, QueryAttention
from patchword.reports.attention.mosaic import over
from patchword.reports.colors import QUERY
from patchword.reports.detection.colors import class_color
from patchword.reports.plots.numbers import shortened
from patchword.reports.plots.shading import scale

_COLUMNS = 3


def object_figures(look: ObjectAttention) -> dict[str, Figure]:
    """Return the figure by its file name without an ending: "queries", or "point"."""
    return {"point": _point_figure(look)} if look.point is not None else {"queries": _query_figure(look)}


def _query_figure(look: ObjectAttention) -> Figure:
    """Draw a panel per query: its attention over the image, and its box."""
    columns = min(_COLUMNS, len(look.queries))
    rows = -(-len(look.queries) // columns)
    figure, panels = _panels(look, rows, columns)
    figure.suptitle(f"{look.model}: cross-attention of the best queries, decoder {_part(look)}", size=11, wrap=True)
    for axes, query in zip(panels, look.queries, strict=False):
        axes.imshow(over(look.pixels, query.weights, look.cell), interpolation="nearest")
        axes.set_title(f"query {query.number}: {shortened(query.name, 24)} {query.score:.2f}", size=9.5)
        _draw_box(axes, query)
    for axes in panels[len(look.queries) :]:
        axes.set_visible(False)
    _scale(figure, panels)
    return figure


def _point_figure(look: ObjectAttention) -> Figure:
    """Draw the self-attention of a point, which a cross marks."""
    assert look.point is not None, "the figure of a point has weights"
    assert look.at is not None, "and a place"
    figure, panels = _panels(look, 1, 1)
    x, y = look.at
    title = f"{look.model}: self-attention of the point x = {x}, y = {y}, encoder {_part(look)}"
    figure.suptitle(title, size=9.5, wrap=True)
    panels[0].imshow(over(look.pixels, look.point, look.cell), interpolation="nearest")
    panels[0].plot([x], [y], "x", color="white", markersize=11, markeredgewidth=4)
    panels[0].plot([x], [y], "x", color=QUERY, markersize=10, markeredgewidth=2)
    _scale(figure, panels)
    return figure


def _panels(look: ObjectAttention, rows: int, columns: int) -> tuple[Figure, list[Axes]]:
    height, width = look.pixels.shape[-2:]
    wide = 3.2 if columns > 1 else 5.2
    high = wide * max(0.4, min(2.0, height / width))
    figure = Figure(figsize=(wide * columns + 1.2, (high + 0.35) * rows + 0.7), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels:
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
    return figure, panels


def _part(look: ObjectAttention) -> str:
    """Return layer and heads in words."""
    layer = f"layer {look.layer} of {look.layers}"
    if len(look.heads) == look.all_heads:
        return f"{layer}, mean of all heads"
    numbers = ", ".join(map(str, look.heads))
    return f"{layer}, {'head' if len(look.heads) == 1 else 'mean of heads'} {numbers}"


def _draw_box(axes: Axes, query: QueryAttention) -> None:
    """Draw the box in the colour of its class, with a white edge."""
    x1, y1, x2, y2 = query.box
    color = tuple(part / 255 for part in class_color(query.label))
    for line, edge in ((3.6, (1.0, 1.0, 1.0)), (2.0, color)):
        axes.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=edge, linewidth=line))


def _scale(figure: Figure, panels: Any) -> None:
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 1), scale()), ax=panels, shrink=0.8, label="attention, relative to the largest cell"
    )
    bar.ax.set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
