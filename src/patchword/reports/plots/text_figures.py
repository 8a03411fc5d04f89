"""Drawings of texts and numbers; each answers the bytes of an SVG."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from patchword.reports.plots.figures import BLUE, ORANGE, drawn, looks

_LINE = "#8a939c"


def lengths(tokens: Sequence[int], limit: int) -> bytes:
    """How many texts have how many tokens; `limit` is what the model reads at once."""
    with looks():
        figure = Figure(figsize=(6.0, 2.6), layout="constrained")
        axes = figure.add_subplot(xlabel="tokens of a text, with [CLS] and [SEP]", ylabel="texts")
        axes.set_axisbelow(True)
        longest = max(*tokens, limit)
        step = max(1, -(-longest // 40))
        axes.hist(tokens, bins=list(range(0, longest + 2 * step, step)), color=BLUE, edgecolor="white", linewidth=0.5)
        axes.axvline(limit, color=ORANGE, linestyle="--", label=f"read at once: {limit} tokens")
        figure.legend(loc="outside upper right", fontsize=10)
        return drawn(figure, "svg")


def predicted(truth: Tensor, answers: Tensor) -> bytes:
    """Numbers that the model gave over the true ones; right answers lie on the line."""
    with looks():
        figure = Figure(figsize=(5.2, 4.6), layout="constrained")
        axes = figure.add_subplot(xlabel="true", ylabel="the model said")
        low, high = float(min(truth.min(), answers.min())), float(max(truth.max(), answers.max()))
        axes.plot([low, high], [low, high], color=_LINE, linestyle="--", linewidth=1.2, zorder=1)
        size = 18 if len(truth) <= 500 else 8
        axes.scatter(truth.numpy(), answers.numpy(), s=size, color=BLUE, alpha=0.45, linewidths=0, zorder=2)
        return drawn(figure, "svg")
