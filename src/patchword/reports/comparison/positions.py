"""Compares position encodings: a table, accuracy over the length, and the similarity of positions."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import torch.nn.functional as F
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from patchword.core.files import whole_file, write_json, write_text
from patchword.reports.colors import FAINT, GREY, INK, TEXT, style_of
from patchword.reports.comparison.study import Grid
from patchword.reports.plots.figures import drawn, figure_style, title
from patchword.studies.text_positions import Exercise, Finding

_KINDS: tuple[Literal["svg", "png"], ...] = ("svg", "png")

ABOUT = (
    "Task: name the token before each token. Trained on texts of {length} tokens, tested on longer ones. "
    "roughness: the mean distance between neighbouring positions over that of all pairs (1: random vectors). "
    "moved: how far training moved the encoding, relative to its norm."
)


def positions_grid(found: Sequence[Finding], task: Exercise) -> Grid:
    """Return the table of all encodings."""
    lengths = [index for index, times in enumerate(task.lengths) if times == int(times)]
    columns = ["encoding", "weights", "roughness", "moved", *(f"{task.tested[index]} tokens" for index in lengths)]
    rows = [
        [
            one.scheme,
            f"{one.weights:,}",
            "-" if one.roughness is None else f"{one.roughness:.3f}",
            "-" if one.moved is None else f"{one.moved:.2f}" if one.weights else "fixed",
            *(f"{100 * one.accuracies[index]:.1f}%" for index in lengths),
        ]
        for one in found
    ]
    return Grid(columns, rows)


def write_positions(found: Sequence[Finding], task: Exercise, folder: Path) -> list[Path]:
    """Write positions.md, positions.json, and figures of accuracy and similarity."""
    write_text(
        folder / "positions.md", f"{ABOUT.format(length=task.length)}\n\n{positions_grid(found, task).markdown()}"
    )
    write_json(folder / "positions.json", to_json(found, task))
    figures = {"accuracy": accuracy_figure(found, task), "similarity": _similarity(found, task)}
    with figure_style(), ExitStack() as files:
        paths = [folder / f"{name}.{kind}" for name in figures for kind in _KINDS]
        for path in paths:
            content = drawn(figures[path.stem], "svg" if path.suffix == ".svg" else "png")
            files.enter_context(whole_file(path)).write_bytes(content)
    return [folder / "positions.md", folder / "positions.json", *paths]


def to_json(found: Sequence[Finding], task: Exercise) -> dict[str, Any]:
    """Return the results as a JSON record."""
    rows = [
        {
            "encoding": one.scheme,
            "weights": one.weights,
            "roughness": one.roughness,
            "moved": one.moved,
            "solver_error": one.solver,
            "accuracy": dict(zip(map(str, task.tested), one.accuracies, strict=True)),
        }
        for one in found
    ]
    return {"trained_length": task.length, "steps": task.steps, "seed": task.seed, "encodings": rows}


def accuracy_figure(found: Sequence[Finding], task: Exercise) -> Figure:
    """Draw the accuracy over the length of the text, a line per encoding."""
    with figure_style():
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.add_subplot(xlabel="tokens per text", ylabel="accuracy (%)", ylim=(0, 104))
        title(axes, f"Position encodings: trained on {task.length} tokens, tested on up to {max(task.tested)}")
        axes.axvspan(0, task.length, color=FAINT)
        axes.text(task.length * 0.73, 3, "trained", ha="center", size=9, color=TEXT)
        guessed = [100 * (task.length + (n - task.length) / (task.words - 1)) / n for n in task.tested]
        label = f"correct up to {task.length}, then guessed"
        axes.plot(task.tested, guessed, color=GREY, linestyle=":", label=label)
        for one in found:
            colour, mark = style_of(one.scheme)
            values = [100 * value for value in one.accuracies]
            axes.plot(task.tested, values, color=colour, marker=mark, markersize=5, label=one.scheme)
        axes.set_xlim(task.length * 0.46, max(task.tested) * 1.02)
        axes.set_xticks(task.tested)
        figure.legend(loc="outside right center", fontsize=9.5)
        return figure


def _similarity(found: Sequence[Finding], task: Exercise) -> Figure:
    """Draw the cosine of every two positions; for relative vectors, of every two distances."""
    shown = [one for one in found if one.encodings is not None]
    columns = min(4, max(1, len(shown)))
    rows = -(-len(shown) // columns) or 1
    with figure_style():
        figure = Figure(figsize=(2.7 * columns + 0.8, 2.75 * rows + 0.5), layout="constrained")
        figure.suptitle("Cosine similarity of position vectors after training", size=11.5)
        panels = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes in panels[len(shown) :]:
            axes.axis("off")
        for axes, one in zip(panels, shown, strict=False):
            assert one.encodings is not None
            unit = F.normalize(one.encodings, dim=-1)
            half = len(unit) // 2 + 0.5
            extent = (-half, half, half, -half) if one.scheme == "shaw" else (0, len(unit), len(unit), 0)
            shades = axes.imshow((unit @ unit.t()).numpy(), cmap="RdBu_r", vmin=-1, vmax=1, extent=extent)
            axes.grid(visible=False)
            axes.set_title(f"{one.scheme} (distances)" if one.scheme == "shaw" else one.scheme, size=10)
            axes.tick_params(labelsize=8)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(4, integer=True))
            if one.scheme != "shaw":
                for line in (axes.axhline, axes.axvline):
                    line(task.length, color=INK, linewidth=0.8, linestyle=":")
        if shown:
            figure.colorbar(shades, ax=list(panels), shrink=0.6)
        figure.supxlabel(f"dotted: the end of the {task.length} trained positions", size=9, color=TEXT)
        return figure
