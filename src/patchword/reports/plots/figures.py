"""Figures drawn with matplotlib's objects, without global state; each function returns the bytes of an SVG."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from patchword.reports.colors import BLUE, GREY, INK, ORANGE, styles_of
from patchword.reports.plots.numbers import counted, shortened
from patchword.reports.plots.slide import Slide

WITH_NUMBERS, WITH_NAMES = 20, 40  # classes of a confusion matrix up to which numbers and names fit

_ROOT = PowerNorm(0.5, 0, 1)
_STYLE = {
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e6ea",
    "legend.frameon": False,
    "text.parse_math": False,  # a class may be called "$5 bill"
    "svg.fonttype": "none",  # the reader's fonts, which cover more scripts than matplotlib's
    "svg.hashsalt": "patchword",
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply our style, whatever the user's matplotlibrc contains."""
    with style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def curves(
    epochs: Sequence[int], training: Sequence[float], validation: Sequence[float], unit: str, best: int
) -> bytes:
    """Draw two lines over the epochs, or one without `training`; `best` is the epoch whose weights were kept."""
    with figure_style():
        figure = Figure(figsize=(4.8, 3.2), layout="constrained")
        axes = figure.add_subplot(xlabel="epoch", ylabel=unit)
        title(axes, f"{unit} over the epochs")
        mark = "o" if len(epochs) <= 30 else None
        axes.axvline(best, color=GREY, linestyle=":", label=f"best: epoch {best}")
        if training:
            axes.plot(epochs, training, color=BLUE, marker=mark, label="training")
        axes.plot(epochs, validation, color=ORANGE, marker=mark and "s", linestyle="--", label="validation")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, steps=[1, 2, 5, 10]))
        if len(epochs) == 1:
            axes.set_xlim(epochs[0] - 1, epochs[0] + 1)
        lines, names = axes.get_legend_handles_labels()
        figure.legend([*lines[1:], lines[0]], [*names[1:], names[0]], loc="outside lower center", ncols=3, fontsize=10)
        return _svg(figure)


def confusion(counts: Tensor, classes: Sequence[str], thing: str = "image") -> bytes:
    """Draw a confusion matrix, with counts and names where they fit.

    Cells are coloured by the square root of the fraction of the true class, so that rare confusions are visible.
    """
    number = len(classes)
    cell = max(0.2, min(0.95, 5.6 / number)) if number <= WITH_NAMES else 6.4 / number
    with figure_style():
        figure = Figure(figsize=(number * cell + 2.2, number * cell + 1.6), layout="constrained")
        axes = figure.add_subplot(xlabel="predicted class", ylabel="true class", aspect="equal")
        axes.grid(visible=False)
        title(axes, f"{thing}s by true and predicted class")
        fractions = (counts.double() / counts.sum(1, keepdim=True).clamp(min=1)).numpy()
        if number <= WITH_NAMES:
            cells: ScalarMappable = axes.pcolormesh(
                fractions, cmap="Blues", norm=_ROOT, edgecolors="#d5dae0", linewidth=0.5
            )
            _names(axes, classes)
        else:
            cells = _overview(axes, fractions)
        axes.set_ylim(number, 0)
        if number <= WITH_NUMBERS:
            _numbers(axes, counts, fractions, size=min(13.0, 19 * cell))
        else:
            figure.colorbar(cells, ax=axes, shrink=0.7, label=f"fraction of the {thing}s of the true class")
        return _svg(figure)


def _names(axes: Axes, classes: Sequence[str]) -> None:
    places, names = np.arange(len(classes)) + 0.5, [shortened(name, 18) for name in classes]
    size = 10 if len(classes) <= WITH_NUMBERS else 7
    axes.set_xticks(places, names, rotation=45, ha="right", rotation_mode="anchor", size=size)
    axes.set_yticks(places, names, size=size)
    axes.tick_params(length=0)


def _numbers(axes: Axes, counts: Tensor, fractions: np.ndarray, size: float) -> None:
    for true, predicted in counts.nonzero().tolist():
        text, dark = str(int(counts[true, predicted])), fractions[true, predicted] > 0.35
        fitting = size * min(1.0, 3.5 / len(text))
        ink = "white" if dark else INK
        axes.text(predicted + 0.5, true + 0.5, text, ha="center", va="center", color=ink, size=fitting)


def _overview(axes: Axes, fractions: np.ndarray) -> ScalarMappable:
    """Draw class numbers instead of names."""
    extent = (0, len(fractions), len(fractions), 0)
    axes.set(xlabel="predicted class (number)", ylabel="true class (number)")
    return axes.imshow(fractions, cmap="Blues", norm=_ROOT, interpolation="nearest", extent=extent)


def learning(groups: Mapping[str, Sequence[Sequence[float]]], unit: str, kind: Literal["svg", "png"]) -> bytes:
    """Draw a value after each epoch; the runs of a group are thin lines, their mean a thick one."""
    with figure_style():
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.add_subplot(xlabel="epoch", ylabel=unit)
        title(axes, f"{unit} over the epochs")
        for name, (colour, mark) in styles_of(groups).items():
            runs = groups[name]
            for run in runs if len(runs) > 1 else []:
                axes.plot(range(1, len(run) + 1), run, color=colour, linewidth=0.7, alpha=0.6)
            shortest = min(map(len, runs))
            mean = np.mean([run[:shortest] for run in runs], axis=0)
            axes.plot(range(1, shortest + 1), mean, color=colour, marker=mark, label=shortened(name, 40))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, steps=[1, 2, 5, 10]))
        figure.legend(loc="outside lower center", ncols=min(4, len(groups)), fontsize=10)
        return drawn(figure, kind)


def dots(
    labels: Sequence[str],
    values: Sequence[float],
    unit: str,
    kind: Literal["svg", "png"],
    lines: Mapping[str, float] | None = None,
) -> bytes:
    """Draw one value per label, the best on top. lines: values to compare with, by name."""
    order = sorted(range(len(values)), key=values.__getitem__)
    with figure_style():
        figure = Figure(figsize=(6.4, 0.34 * len(values) + 1.0), layout="constrained")
        axes = figure.add_subplot(xlabel=unit)
        title(axes, f"{unit} of {counted(len(values), 'run')}")
        places, shown = range(len(order)), [values[index] for index in order]
        for (name, value), line in zip((lines or {}).items(), ("--", ":"), strict=False):
            axes.axvline(value, color=ORANGE, linestyle=line, linewidth=1.2, label=f"{name} {value:.2f}")
        axes.plot(shown, places, "o", color=BLUE)
        for place, value in zip(places, shown, strict=True):
            axes.annotate(f"{value:.2f}", (value, place), (8, 0), textcoords="offset points", va="center", size=9)
        axes.set_yticks(places, [shortened(labels[index], 40) for index in order])
        axes.margins(x=0.14, y=0.6 / len(order))
        if lines:
            figure.legend(loc="outside lower center", ncols=len(lines), fontsize=9)
        return drawn(figure, kind)


def title(axes: Axes, text: str) -> None:
    """Write the title of a figure of one panel."""
    axes.set_title(text[:1].upper() + text[1:], loc="left", weight="bold", size=12)


def _svg(figure: Figure) -> bytes:
    return drawn(figure, "svg")


def drawn(figure: Figure, kind: Literal["svg", "png"]) -> bytes:
    """Return the bytes of a figure; the same figure gives the same bytes. A PNG of a slide has 1920 x 1080 pixels."""
    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {}
    size: dict[str, Any] = {"dpi": 144} if isinstance(figure, Slide) else {"dpi": 200, "bbox_inches": "tight"}
    figure.savefig(buffer, format=kind, metadata=metadata, **size)
    return buffer.getvalue()
