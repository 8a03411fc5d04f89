"""Models as points over their cost: a colour and a marker per family, a line through its sizes, labels."""

import re
import textwrap
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from patchword.analysis.published.comparison import Row
from patchword.analysis.published.image import ONE
from patchword.reports.colors import TEXT, style_of
from patchword.reports.plots.figures import drawn, figure_style, title
from patchword.reports.plots.labels import Label, place

_MACS = "multiply-accumulates per image (G, counted)"


@dataclass(frozen=True)
class Point:
    """One model; points of the same `line` are connected. style: colour and marker."""

    family: str
    label: str
    across: float
    value: float
    line: Hashable
    style: tuple[str, str]
    filled: bool = True


def accuracy(rows: Sequence[Row]) -> dict[str, bytes]:
    """Draw published top-1 accuracy over counted MACs; hollow if the training differs from plain ImageNet-1k."""
    points = [
        _point(row, top1, (*_series(row), trained), filled=trained == ONE)
        for row, trained in ((row, row.published.trained) for row in rows)
        if (top1 := row.published.top1) is not None
    ]
    caption = "Top-1 as published, on the validation set of ImageNet-1k; MACs as counted here, per image."
    if not all(point.filled for point in points):
        caption += " Hollow: trained on other data, at another size or for other epochs; see the table."
    return scatter_figure(points, _MACS, "top-1 accuracy (%)", caption)


def speed(rows: Sequence[Row], caption: str) -> dict[str, bytes]:
    """Draw measured images per second over counted MACs, both logarithmic: equal MACs per second are a line."""
    points = [_point(row, row.speed.rate, _series(row)) for row in rows if row.speed]
    return scatter_figure(points, _MACS, "images per second", caption, factors=True)


def _point(row: Row, value: float, line: Hashable, filled: bool = True) -> Point:
    return Point(row.family, row.size, row.macs / 1e9, value, line, style_of(row.family), filled)


def _series(row: Row) -> tuple[Hashable, ...]:
    return row.family, row.image, beyond_size(row.size)


def beyond_size(size: str) -> str:
    """Return what differs besides the size (patch, width, language); such models are not connected."""
    return re.sub(r"^([a-z]+|\d+)", "", size)


def scatter_figure(
    points: Sequence[Point], across: str, unit: str, caption: str, factors: bool = False
) -> dict[str, bytes]:
    """Return the figure as png and svg; empty without points. across, unit: the axis labels. factors: log y axis."""
    if not points:
        return {}
    with figure_style():
        figure = Figure(figsize=(8.4, 5.6), layout="constrained")
        axes = figure.add_subplot(xlabel=across, ylabel=unit, xscale="log")
        title(axes, f"{unit.partition(' (')[0]} over {across.partition(' (')[0]}")
        if factors:
            axes.set_yscale("log")
        lines = _lines(points)
        for line in lines:
            _draw(axes, line)
        axes.margins(x=0.08, y=0.1)
        for axis in (axes.xaxis, axes.yaxis) if factors else (axes.xaxis,):
            by_factors(axis)
        families = list(dict.fromkeys((point.family, *point.style) for point in points))
        handles = [
            Line2D([], [], color=colour, marker=mark, label=family, linewidth=1.2) for family, colour, mark in families
        ]
        figure.legend(handles=handles, loc="outside right upper", fontsize=10)
        figure.supxlabel("\n".join(textwrap.wrap(caption, 110)), size=9, color=TEXT, x=0.01, ha="left")
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        labels = [Label(point.across, point.value, point.label, point.style[0]) for point in points]
        place(axes, labels, [[(point.across, point.value) for point in line] for line in lines])
        return {"png": drawn(figure, "png"), "svg": drawn(figure, "svg")}


def _lines(points: Sequence[Point]) -> list[list[Point]]:
    joined: dict[Hashable, list[Point]] = {}
    for point in sorted(points, key=lambda point: point.across):
        joined.setdefault(point.line, []).append(point)
    return list(joined.values())


def _draw(axes: Axes, line: Sequence[Point]) -> None:
    colour, mark = line[0].style
    across, up = [point.across for point in line], [point.value for point in line]
    axes.plot(across, up, color=colour, linewidth=1.2, alpha=0.6, zorder=2)
    inside = colour if line[0].filled else "white"
    axes.plot(across, up, mark, color=colour, markerfacecolor=inside, markersize=7, markeredgewidth=1.2, zorder=3)


def by_factors(axis: Axis) -> None:
    """Set the ticks of a logarithmic axis: as many as fit, as plain numbers."""
    low, high = axis.get_view_interval()
    wide, narrow = high > 2000 * low, high < 8 * low
    axis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 1.5, *range(2, 10)) if narrow else (1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
