"""Figures of a classifier's probabilities: the reliability diagram, and the results of two classes by threshold."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from patchword.objectives.metrics.calibration import Reliability
from patchword.objectives.metrics.thresholds import ThresholdCurve
from patchword.reports.colors import BLUE, GREEN, GREY, INK, ORANGE
from patchword.reports.plots.figures import drawn, figure_style

_POINTS = 400  # thresholds that are drawn


def reliability(before: Reliability, scaled: tuple[Reliability, float] | None) -> bytes:
    """Draw the accuracy over the probability in bins, and below it how many predictions each bin has.

    scaled: the bins of the probabilities with a temperature, and the temperature.
    """
    with figure_style():
        figure = Figure(figsize=(4.8, 4.6), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        upper.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="perfect")
        _line(upper, before, BLUE, "o-", "as trained")
        if scaled is not None:
            _line(upper, scaled[0], ORANGE, "s--", f"temperature {scaled[1]:.2f}")
        upper.set(ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02))
        upper.set_aspect("auto")
        _histogram(lower, before, BLUE)
        lower.set(xlabel="probability of the predicted class", ylabel="fraction")
        figure.legend(*upper.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=10)
        return drawn(figure, "svg")


def _line(axes: Axes, bins: Reliability, colour: str, style: str, label: str) -> None:
    used = bins.counts > 0
    axes.plot(
        bins.confidence[used].numpy(), bins.accuracy[used].numpy(), style, color=colour, label=label, markersize=5
    )


def _histogram(axes: Axes, bins: Reliability, colour: str) -> None:
    edges = np.linspace(0, 1, len(bins.counts) + 1)
    shares = (bins.counts.double() / bins.counts.sum()).numpy()
    axes.bar(edges[:-1], shares, np.diff(edges), align="edge", color=colour, edgecolor="white", linewidth=0.5)


def thresholds(curve: ThresholdCurve, chosen: float | None) -> bytes:
    """Draw precision, recall and F1 of the positive class over the threshold; a line marks the chosen one."""
    with figure_style():
        figure = Figure(figsize=(4.8, 3.6), layout="constrained")
        axes = figure.add_subplot(xlabel="threshold of the probability", ylabel="%", xlim=(0, 1), ylim=(0, 102))
        shown = np.unique(np.linspace(0, len(curve.thresholds) - 1, _POINTS).astype(int))
        places = curve.thresholds.numpy()[shown]
        named = (("precision", BLUE, "-"), ("recall", ORANGE, "--"), ("f1", GREEN, "-."))
        for name, colour, style in named:
            values = 100 * getattr(curve, name).numpy()[shown]
            axes.plot(places, values, style, color=colour, label="F1" if name == "f1" else name, drawstyle="steps-post")
        if chosen is not None:
            axes.axvline(chosen, color=INK, linestyle=":", label=f"chosen: {chosen:.2f}")
        figure.legend(loc="outside upper center", ncols=4, fontsize=10)
        return drawn(figure, "svg")
