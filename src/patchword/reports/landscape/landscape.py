"""Writes the loss landscapes of several runs on one scale, as PNG, SVG and raw arrays."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from patchword.analysis.sharpness.landscape import Kind
from patchword.core.errors import UserError
from patchword.core.files import whole_file
from patchword.reports.colors import styles_of
from patchword.reports.landscape.axes import RunLandscape, axis_label, direction, few_numbers, sample_caption, scale
from patchword.reports.landscape.contours import contour_figure
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import shortened

_KINDS: tuple[Literal["png", "svg"], ...] = ("png", "svg")


def paths(out: Path) -> list[Path]:
    """Return the paths of the figure in both formats and of the arrays."""
    if out.suffix.lower() not in ("", ".png", ".svg", ".npz"):
        raise UserError(f"cannot write {out}", expected="a name that ends in .png or .svg")
    files = [out.with_suffix(suffix) for suffix in (".png", ".svg", ".npz")]
    for file in files:
        if file.is_dir():
            raise UserError(f"cannot write {file}", got="it is a folder")
    return files


def write_landscapes(landscapes: Sequence[RunLandscape], kind: Kind, out: Path) -> list[Path]:
    """Write all files, or none if one fails."""
    files = paths(out)
    with figure_style(), ExitStack() as written:
        figure = landscape_figure(landscapes, kind)
        for path, form in zip(files, _KINDS, strict=False):
            written.enter_context(whole_file(path)).write_bytes(drawn(figure, form))
        with written.enter_context(whole_file(files[-1])).open("wb") as file:
            np.savez_compressed(file, **arrays(landscapes, kind))
    return files


def landscape_figure(landscapes: Sequence[RunLandscape], kind: Kind) -> Figure:
    """Draw curves for one direction, contours and surfaces for two."""
    return _lines(landscapes, kind) if landscapes[0].found.losses.ndim == 1 else contour_figure(landscapes, kind)


def arrays(landscapes: Sequence[RunLandscape], kind: Kind) -> dict[str, Any]:
    """Return the arrays for numpy.load; in two dimensions loss[run, second, first]."""
    return {
        "runs": np.array([one.name for one in landscapes]),
        "samples": np.array([one.sample for one in landscapes]),
        "directions": np.array(kind),
        "places": landscapes[0].found.places.numpy(),
        "loss": np.stack([one.found.losses.numpy() for one in landscapes]),
        "accuracy": np.stack([one.found.accuracies.numpy() for one in landscapes]),
    }


def _lines(landscapes: Sequence[RunLandscape], kind: Kind) -> Figure:
    shown = ["loss", "accuracy"] if all(one.has_accuracy for one in landscapes) else ["loss"]
    figure = Figure(figsize=(5.2 * len(shown), 3.9), layout="constrained")
    losses = np.stack([one.found.losses.numpy() for one in landscapes])
    looks = styles_of(one.name for one in landscapes)
    for place, what in enumerate(shown):
        axes = figure.add_subplot(1, len(shown), place + 1, xlabel=axis_label(kind, 0))
        for number, one in enumerate(landscapes):
            values = losses[number] if what == "loss" else 100 * one.found.accuracies.numpy()
            colour, mark = looks[one.name]
            label = shortened(one.name, 40) if not place else None
            axes.plot(one.found.places, values, color=colour, marker=mark, markersize=4, label=label)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_ylabel(landscapes[0].loss_name if what == "loss" else "accuracy (%)")
        if what == "loss" and isinstance(scale(losses), LogNorm):
            axes.set(yscale="log", ylabel=f"{landscapes[0].loss_name}, logarithmic")
            few_numbers(axes)
    figure.suptitle(f"Loss around the weights, along {direction(kind, 0)}", size=13, weight="bold")
    figure.legend(loc="outside right center", fontsize=10)
    sample_caption(figure, landscapes)
    return figure
