"""Loss surfaces of several runs side by side: contours and hills on one scale, as PNG, SVG and raw arrays."""

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
from patchword.reports.landscape.axes import Looked, along, below, few_numbers, scale
from patchword.reports.landscape.contours import hills
from patchword.reports.plots.figures import drawn, looks
from patchword.reports.plots.numbers import shortened

_KINDS: tuple[Literal["png", "svg"], ...] = ("png", "svg")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1c2024")
_MARKS, _LINES = "osD^vPX", ("-", "--", "-.", ":")


def paths(out: Path) -> list[Path]:
    """The picture in both kinds and the arrays, beside each other."""
    if out.suffix.lower() not in ("", ".png", ".svg", ".npz"):
        raise UserError(f"cannot write {out}", expected="a name that ends in .png or .svg")
    files = [out.with_suffix(suffix) for suffix in (".png", ".svg", ".npz")]
    for file in files:
        if file.is_dir():
            raise UserError(f"cannot write {file}", got="it is a folder")
    return files


def write_surfaces(looked: Sequence[Looked], kind: Kind, out: Path) -> list[Path]:
    """All files or none."""
    files = paths(out)
    with looks(), ExitStack() as written:
        figure = surface_figure(looked, kind)
        for path, form in zip(files, _KINDS, strict=False):
            written.enter_context(whole_file(path)).write_bytes(drawn(figure, form))
        with written.enter_context(whole_file(files[-1])).open("wb") as file:
            np.savez_compressed(file, **arrays(looked, kind))
    return files


def surface_figure(looked: Sequence[Looked], kind: Kind) -> Figure:
    """Curves, or contours and hills: as many directions as there are."""
    return _lines(looked, kind) if looked[0].found.losses.ndim == 1 else hills(looked, kind)


def arrays(looked: Sequence[Looked], kind: Kind) -> dict[str, Any]:
    """For numpy.load; in two dimensions loss[run, second, first]."""
    return {
        "runs": np.array([one.name for one in looked]),
        "samples": np.array([one.sample for one in looked]),
        "directions": np.array(kind),
        "places": looked[0].found.places.numpy(),
        "loss": np.stack([one.found.losses.numpy() for one in looked]),
        "accuracy": np.stack([one.found.accuracies.numpy() for one in looked]),
    }


def _lines(looked: Sequence[Looked], kind: Kind) -> Figure:
    shown = ["loss", "accuracy"] if all(one.has_accuracy for one in looked) else ["loss"]
    figure = Figure(figsize=(5.2 * len(shown), 3.9), layout="constrained")
    losses = np.stack([one.found.losses.numpy() for one in looked])
    for place, what in enumerate(shown):
        axes = figure.add_subplot(1, len(shown), place + 1, xlabel=along(kind, 0))
        for number, one in enumerate(looked):
            values = losses[number] if what == "loss" else 100 * one.found.accuracies.numpy()
            colour, mark = _COLOURS[number % len(_COLOURS)], _MARKS[number % len(_MARKS)]
            label = shortened(one.name, 40) if not place else None
            style = _LINES[number % len(_LINES)]
            axes.plot(one.found.places, values, color=colour, marker=mark, linestyle=style, markersize=4, label=label)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_ylabel(looked[0].loss_name if what == "loss" else "right answers (%)")
        if what == "loss" and isinstance(scale(losses), LogNorm):
            axes.set(yscale="log", ylabel=f"{looked[0].loss_name}, logarithmic")
            few_numbers(axes)
    figure.legend(loc="outside upper center", ncols=min(4, len(looked)), fontsize=10)
    below(figure, looked)
    return figure
