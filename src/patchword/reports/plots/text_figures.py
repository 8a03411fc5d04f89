"""Figures of text lengths and predicted numbers; each function returns the bytes of an SVG."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from patchword.reports.colors import BLUE, GREY, ORANGE
from patchword.reports.plots.figures import drawn, figure_style, title


def lengths(tokens: Sequence[int], limit: int) -> bytes:
    """Draw a histogram of text lengths; `limit` is the maximum length that the model reads at once."""
    with figure_style():
        figure = Figure(figsize=(6.0, 2.6), layout="constrained")
        axes = figure.add_subplot(xlabel="tokens per text, with [CLS] and [SEP]", ylabel="texts")
        title(axes, "Lengths of the texts")
        axes.set_axisbelow(True)
        longest = max(*tokens, limit)
        step = max(1, -(-longest // 40))
        axes.hist(tokens, bins=list(range(0, longest + 2 * step, step)), color=BLUE, edgecolor="white", linewidth=0.5)
        axes.axvline(limit, color=ORANGE, linestyle="--", label=f"maximum length: {limit} tokens")
        figure.legend(loc="outside lower right", fontsize=10)
        return drawn(figure, "svg")


def predicted(truth: Tensor, answers: Tensor) -> bytes:
    """Draw predicted over true values; correct predictions are on the line."""
    with figure_style():
        figure = Figure(figsize=(5.2, 4.6), layout="constrained")
        axes = figure.add_subplot(xlabel="true value", ylabel="predicted value")
        title(axes, "Predicted over true values")
        low, high = float(min(truth.min(), answers.min())), float(max(truth.max(), answers.max()))
        axes.plot([low, high], [low, high], color=GREY, linestyle="--", linewidth=1.2, zorder=1)
        size = 18 if len(truth) <= 500 else 8
        axes.scatter(truth.numpy(), answers.numpy(), s=size, color=BLUE, alpha=0.45, linewidths=0, zorder=2)
        return drawn(figure, "svg")
