"""Learning curves of several runs, laid over each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import shortened

_LINES, _MARKS = ("-", "--", "-.", ":"), "osD^vPX"


@dataclass(frozen=True)
class Curve:
    """The values of one run after each of its epochs."""

    epochs: Sequence[int]
    values: Sequence[float]


def overlaid(
    curves: Mapping[str, Curve], unit: str, colors: Mapping[str, str], kind: Literal["svg", "png"] = "svg"
) -> bytes:
    """Draw one line per run. colors: by the name of the run; a colour that is used again gets another line style."""
    used: list[str] = []
    with figure_style():
        figure = Figure(figsize=(4.8, 3.4), layout="constrained")
        axes = figure.add_subplot(xlabel="epoch", ylabel=unit)
        for name, curve in curves.items():
            again = used.count(colors[name])
            used.append(colors[name])
            axes.plot(
                curve.epochs,
                curve.values,
                color=colors[name],
                linestyle=_LINES[again % len(_LINES)],
                marker=_MARKS[again % len(_MARKS)] if len(curve.epochs) <= 30 else None,
                label=shortened(name, 40),
            )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, steps=[1, 2, 5, 10]))
        if max((len(curve.epochs) for curve in curves.values()), default=0) == 1:
            axes.set_xlim(0, 2)
        columns = 3 if max(map(len, curves), default=0) <= 14 else 1
        figure.legend(loc="outside upper center", ncols=min(columns, len(curves)), fontsize=10)
        return drawn(figure, kind)
