"""The alignment picture of the lectures: which words a translator looked at for each word it wrote."""

from pathlib import Path
from typing import Literal

from matplotlib.figure import Figure

from patchword.core.errors import UserError
from patchword.core.files import whole_file
from patchword.recipes.translation.alignment import Alignment
from patchword.reports.plots.figures import drawn, looks
from patchword.reports.plots.numbers import shortened

KINDS: dict[str, Literal["png", "svg"]] = {".png": "png", ".svg": "svg"}


def check_picture(path: Path) -> None:
    if path.suffix.lower() not in KINDS:
        raise UserError(f"cannot draw {path}", expected="a name that ends in .png or .svg")


def write_alignment(found: Alignment, path: Path) -> None:
    check_picture(path)
    with whole_file(path) as temporary:
        temporary.write_bytes(draw_alignment(found, KINDS[path.suffix.lower()]))


def draw_alignment(found: Alignment, kind: Literal["svg", "png"]) -> bytes:
    """A row for each word that was written, a column for each that was read; the darker, the more attention."""
    rows, columns = found.weights.shape
    cell = min(0.42, 14 / max(rows, columns))
    size = 10 if cell > 0.3 else 7 if cell > 0.18 else 5
    with looks():
        figure = Figure(figsize=(columns * cell + 2.4, rows * cell + 1.6), layout="constrained")
        axes = figure.add_subplot()
        shown = axes.imshow(
            found.weights.numpy(), cmap="Greys", vmin=0, vmax=float(found.weights.max()), aspect="equal"
        )
        axes.set_xticks(range(columns), [shortened(word, 24) for word in found.read], rotation=90, size=size)
        axes.set_yticks(range(rows), [shortened(word, 24) for word in found.written], size=size)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xlabel("read", labelpad=10)
        axes.set_ylabel("written")
        axes.tick_params(length=0)
        axes.grid(visible=False)
        layer = f", layer {found.layer} of {found.layers}" if found.layers > 1 else ""
        figure.colorbar(shown, ax=axes, shrink=0.7, label=f"attention{layer}")
        return drawn(figure, kind)
