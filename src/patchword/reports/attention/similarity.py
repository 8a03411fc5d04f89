"""The similarity of a word's vectors in several sentences as heat maps, one per layer."""

from math import floor
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from patchword.core.files import whole_file
from patchword.recipes.text.inference.similarity import Similarity
from patchword.reports.colors import INK
from patchword.reports.plots.figures import drawn, figure_style

_WITH_NUMBERS = 16  # numbers are written for at most this many uses
_KINDS: tuple[Literal["png", "svg"], ...] = ("png", "svg")


def write_similarity(found: Similarity, folder: Path) -> list[Path]:
    """Write similar.png and similar.svg."""
    paths = [folder / f"similar.{kind}" for kind in _KINDS]
    for path, kind in zip(paths, _KINDS, strict=True):
        with whole_file(path) as temporary:
            temporary.write_bytes(heat_maps(found, kind))
    return paths


def heat_maps(found: Similarity, kind: Literal["svg", "png"]) -> bytes:
    """Draw all maps on one scale. Rows and columns are the uses, in the same order."""
    number = len(found.uses)
    cell = 0.5 if number <= _WITH_NUMBERS else 6.4 / number
    lowest = floor(10 * min(float(cosines.min()) for cosines in found.layers.values()) - 0.5) / 10
    with figure_style():
        size = (len(found.layers) * (number * cell + 0.5) + 4.4, number * cell + 1.3)
        figure = Figure(figsize=size, layout="constrained")
        maps = figure.subplots(1, len(found.layers), squeeze=False)[0]
        for axes, (layer, cosines) in zip(maps, found.layers.items(), strict=True):
            shown = axes.pcolormesh(cosines.numpy(), cmap="Blues", vmin=lowest, vmax=1)
            _frame(axes, number, title(layer))
            if number <= _WITH_NUMBERS:
                _numbers(axes, cosines, lowest)
        labels = [f"{use.marked()}  {place}" for place, use in enumerate(found.uses, 1)]
        places = [place + 0.5 for place in range(number)]
        maps[0].set_yticks(places, labels, size=9 if number <= 24 else 6)
        figure.colorbar(shown, ax=list(maps), shrink=0.8, label="cosine similarity")
        figure.suptitle(f"“{found.word}” in {number} uses", size=12)
        return drawn(figure, kind)


def title(layer: int) -> str:
    """Return the title of a layer's map."""
    return "layer 0: embedding, without context" if layer == 0 else f"layer {layer}: in context"


def _frame(axes: Axes, number: int, name: str) -> None:
    axes.set(aspect="equal", ylim=(number, 0))
    axes.set_title(name, size=11)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    numbers = [place for place in range(1, number + 1) if number <= 24 or place % 5 == 0]  # more would overlap
    axes.set_xticks([place - 0.5 for place in numbers], [str(place) for place in numbers], size=9)
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)


def _numbers(axes: Axes, cosines: Tensor, lowest: float) -> None:
    middle = lowest + 0.6 * (1 - lowest)
    for row, values in enumerate(cosines.tolist()):
        for column, value in enumerate(values):
            ink = "white" if value > middle else INK
            axes.text(column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", color=ink, size=9)
