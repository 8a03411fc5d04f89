"""The alignment figure of translations: which source words each translated word attends to."""

from pathlib import Path
from typing import Literal

from matplotlib.figure import Figure

from patchword.core.errors import UserError
from patchword.core.files import whole_file
from patchword.recipes.translation.alignment import Alignment
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import shortened

KINDS: dict[str, Literal["png", "svg"]] = {".png": "png", ".svg": "svg"}


def check_figure_path(path: Path) -> None:
    """Check the ending of the file name."""
    if path.suffix.lower() not in KINDS:
        raise UserError(f"cannot draw {path}", expected="a name that ends in .png or .svg")


def write_alignment(found: Alignment, path: Path) -> None:
    """Draw an alignment into a file."""
    check_figure_path(path)
    with whole_file(path) as temporary:
        temporary.write_bytes(draw_alignment(found, KINDS[path.suffix.lower()]))


def draw_alignment(found: Alignment, kind: Literal["svg", "png"]) -> bytes:
    """Draw a row per translated word, a column per source word; the darker, the more attention."""
    rows, columns = found.weights.shape
    cell = min(0.34, 14 / max(rows, columns))
    size = 10 if cell > 0.3 else 7 if cell > 0.18 else 5
    with figure_style():
        figure = Figure(figsize=(1.8 * columns * cell + 2.4, rows * cell + 1.6), layout="constrained")
        figure.suptitle("Attention to the source words", size=13, weight="bold")
        axes = figure.add_subplot()
        angle = 0 if size == 10 and max(map(len, found.read)) <= 8 else 90  # 8 letters are as wide as a column
        shown = axes.imshow(found.weights.numpy(), cmap="Greys", vmin=0, vmax=float(found.weights.max()), aspect="auto")
        axes.set_xticks(range(columns), [shortened(word, 24) for word in found.read], rotation=angle, size=size)
        axes.set_yticks(range(rows), [shortened(word, 24) for word in found.written], size=size)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xlabel("source", labelpad=10)
        axes.set_ylabel("translation")
        axes.tick_params(length=0)
        axes.grid(visible=False)
        layer = f", layer {found.layer} of {found.layers}" if found.layers > 1 else ""
        figure.colorbar(shown, ax=axes, shrink=0.7, label=f"attention weight{layer}")
        return drawn(figure, kind)
