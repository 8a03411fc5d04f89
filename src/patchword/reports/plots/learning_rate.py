"""The figure of a ramp of learning rates."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from patchword.reports.colors import BLUE, INK, ORANGE
from patchword.reports.plots.figures import drawn, figure_style


def learning_rate_figure(
    rates: Sequence[float], losses: Sequence[float], smoothed: Sequence[float], suggestion: float | None, title: str
) -> bytes:
    """Draw the loss over the learning rate, with the suggested rate marked, as a PNG in 16:9."""
    with figure_style():
        figure = Figure(figsize=(9.6, 5.4), layout="constrained")
        axes = figure.add_subplot(xlabel="learning rate", ylabel="training loss", xscale="log", title=title)
        axes.plot(rates, losses, color="#9aa3ab", linewidth=1, label="loss of each step")
        axes.plot(rates, smoothed, color=BLUE, linewidth=2.5, label="smoothed")
        low, high = min(smoothed), max(smoothed[0], *losses[: max(1, len(losses) // 4)])
        axes.set_ylim(min(low, *losses) - 0.05 * (high - low), high + 0.5 * (high - low))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:.0e}"))  # no formulas in our style
        axes.xaxis.set_minor_formatter(NullFormatter())
        if suggestion is not None:
            axes.axvline(suggestion, color=ORANGE, linestyle="--", linewidth=2, label=f"suggested: {suggestion:.1e}")
        axes.legend(loc="best", labelcolor=INK)
        return drawn(figure, "png")
