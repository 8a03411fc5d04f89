"""Draws four attention patterns over the resolution: MACs by formula, MACs counted, and time."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from patchword.core.files import whole_file
from patchword.reports.colors import TEXT, Style, style_of
from patchword.reports.comparison.scatter import by_factors
from patchword.reports.plots.figures import drawn, figure_style


@dataclass(frozen=True)
class Curve:
    """One attention pattern at every map side: MACs by the formula, MACs counted, seconds measured."""

    name: str
    formula: Sequence[int]
    counted: Sequence[int]
    seconds: Sequence[float]

    @property
    def style(self) -> Style:
        return style_of(self.name)


def write_formulas(sides: Sequence[int], curves: Sequence[Curve], caption: str, folder: Path) -> list[Path]:
    """Write formula.png and formula.svg."""
    with figure_style():
        figure = Figure(figsize=(9.6, 4.8), layout="constrained")
        cost, time = figure.subplots(1, 2)
        for curve in curves:
            colour, mark = curve.style
            cost.plot(sides, [macs / 1e9 for macs in curve.formula], color=colour, linewidth=1.4)
            cost.plot(sides, [macs / 1e9 for macs in curve.counted], mark, color=colour, markersize=6)
            time.plot(sides, [1000 * taken for taken in curve.seconds], color=colour, marker=mark, markersize=6)
        cost.set(ylabel="multiply-accumulates (G)", title="cost")
        time.set(ylabel="time per call (ms)", title="time")
        for axes in (cost, time):
            _scale(axes, sides)
        names = [Line2D([], [], color=curve.style[0], marker=curve.style[1], label=curve.name) for curve in curves]
        figure.suptitle("Four kinds of attention over the resolution", size=13, weight="bold")
        figure.legend(handles=names, loc="outside right center")
        figure.supxlabel("\n".join(textwrap.wrap(caption, 125)), size=9, color=TEXT, x=0.01, ha="left")
        contents = {kind: drawn(figure, kind) for kind in ("png", "svg")}
    for kind, content in contents.items():
        with whole_file(folder / f"formula.{kind}") as temporary:
            temporary.write_bytes(content)
    return [folder / f"formula.{kind}" for kind in contents]


def _scale(axes: Axes, sides: Sequence[int]) -> None:
    """Use logarithmic axes: a power of the side is a straight line."""
    axes.set(xlabel="side of the map (tokens)", xscale="log", yscale="log")
    named: list[int] = []
    for side in sorted(sides, reverse=True):
        if not named or 1.2 * side <= named[-1]:  # there is room for its label
            named.append(side)
    axes.set_xticks(list(sides), [str(side) if side in named else "" for side in sides])
    axes.set_xticks([], minor=True)
    by_factors(axes.yaxis)
