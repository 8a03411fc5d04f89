"""Figures of detection results; each function returns the bytes of an SVG."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator
from numpy.typing import NDArray

from patchword.reports.colors import INK, style_of
from patchword.reports.plots.figures import drawn, figure_style, title
from patchword.reports.plots.numbers import shortened

COLORED = 10  # classes up to which each curve has its own colour
_PALE = "#9db4c8"
_DASHES = ("-", "--", "-.", ":")


class PrecisionRecall(NamedTuple):
    """The curves of one IoU threshold. precision: (classes, recalls); undefined classes are left out.

    mean: (recalls,), the mean over the classes. ap: its mean over the recalls.
    """

    threshold: float
    precision: Sequence[NDArray[np.float64]]
    names: Sequence[str]
    colors: Sequence[str]
    mean: NDArray[np.float64]
    ap: float


def precision_recall(recalls: NDArray[np.float64], panels: Sequence[PrecisionRecall]) -> bytes:
    """Draw precision over recall: a line per class and a thick one for their mean, one panel per IoU threshold."""
    with figure_style():
        figure = Figure(figsize=(4.9 * len(panels), 4.2), layout="constrained")
        figure.suptitle("Precision over recall", weight="bold", size=13)
        for place, panel in enumerate(panels, 1):
            axes = figure.add_subplot(1, len(panels), place, xlabel="recall (%)", ylabel="precision (%)")
            axes.set_title(f"IoU \N{GREATER-THAN OR EQUAL TO} {panel.threshold:g}: AP {100 * panel.ap:.1f}", size=12)
            axes.set(xlim=(0, 100), ylim=(0, 103))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MultipleLocator(20))
            _draw_curves(axes, 100 * recalls, panel)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)), fontsize=10)
        return drawn(figure, "svg")


def _draw_curves(axes: Axes, recalls: NDArray[np.float64], panel: PrecisionRecall) -> None:
    few = len(panel.precision) <= COLORED
    for place, (curve, name, color) in enumerate(zip(panel.precision, panel.names, panel.colors, strict=True)):
        label = shortened(name, 18) if few else ("one class" if place == 0 else None)
        style = _DASHES[place % len(_DASHES)] if few else "-"
        line: dict[str, Any] = (
            {"color": color, "linewidth": 1.8} if few else {"color": _PALE, "linewidth": 0.7, "alpha": 0.7}
        )
        axes.plot(recalls, 100 * curve, label=label, linestyle=style, **line)
    if len(panel.precision) > 1:
        axes.plot(recalls, 100 * panel.mean, color=INK, linewidth=2.8, label="mean of the classes")


def training_curve(epochs: Sequence[int], values: Sequence[float], unit: str, name: str) -> bytes:
    """Draw one line over the epochs."""
    with figure_style():
        figure = Figure(figsize=(4.8, 3.2), layout="constrained")
        axes = figure.add_subplot(xlabel="epoch", ylabel=unit)
        title(axes, f"{unit} over the epochs")
        color = style_of(name).color
        axes.plot(epochs, values, color=color, marker="o" if len(epochs) <= 30 else None, label=name)
        if len(epochs) == 1:
            axes.set_xlim(epochs[0] - 1, epochs[0] + 1)
        figure.legend(loc="outside lower center", fontsize=10)
        return drawn(figure, "svg")
