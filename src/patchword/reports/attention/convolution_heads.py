"""Draws what each head attends to in attention that computes a convolution: one map per head, in kernel order."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from patchword.analysis.attention.as_convolution import ConvolutionByAttention
from patchword.core.files import whole_file
from patchword.reports.colors import BLUE, FAINT, GREY, INK, ORANGE
from patchword.reports.plots.figures import drawn, figure_style

_KINDS: tuple[Literal["svg", "png"], ...] = ("svg", "png")
_LEAST = 0.01  # weights below this are not drawn


def write_heads(layer: ConvolutionByAttention, weights: Tensor, title: str, folder: Path, name: str) -> list[Path]:
    """Write NAME.svg and NAME.png. weights: (heads, tokens, tokens), the attention weights."""
    grid = layer.grid
    places = {"a token in the middle": (grid.height // 2, grid.width // 2), "the corner token": (0, 0)}
    rows = len({row for row, _ in layer.offsets})
    with figure_style():
        figure = Figure(figsize=(max(7.4, 2.2 * rows + 0.6), max(4.2, 1.24 * rows + 1.2)), layout="constrained")
        figure.suptitle(title, weight="bold", size=12)
        for axes, (words, place) in zip(figure.subplots(1, 2), places.items(), strict=True):
            axes.set_title(f"what the heads of {words} attend to", size=10.5)
            _heads(axes, layer, weights, place)
        handles = [
            Patch(facecolor=INK, label="query token"),
            Patch(facecolor=BLUE, label="attended token (all of the weight)"),
            Patch(facecolor=ORANGE, label="token of zeros (zero padding)"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9)
        contents = {folder / f"{name}.{kind}": drawn(figure, kind) for kind in _KINDS}
    with ExitStack() as both:
        for path, content in contents.items():
            both.enter_context(whole_file(path)).write_bytes(content)
    return list(contents)


def _heads(axes: Axes, layer: ConvolutionByAttention, weights: Tensor, place: tuple[int, int]) -> None:
    """Draw all heads in units of the side of a map; the token of zeros is above its map."""
    grid, first = layer.grid, layer.offsets[0]
    unit = max(grid.height, grid.width)
    query = grid.prefix + place[0] * grid.width + place[1]
    for offset, read in zip(layer.offsets, weights[:, query], strict=True):
        left, top = (offset[1] - first[1]) * 1.25, (offset[0] - first[0]) * 1.45
        words = f"{offset[0]:+d}, {offset[1]:+d}".replace("+0", "0").replace("-", "\N{MINUS SIGN}")
        axes.text(left + grid.width / unit / 2, top - 0.06, words, ha="center", size=8.5)
        _frame(axes, layer, left, top)
        for cell in _cells(layer, read, place):
            cell.set(x=left + cell.get_x() / unit, y=top + cell.get_y() / unit)
            cell.set(width=cell.get_width() / unit, height=cell.get_height() / unit)
            axes.add_patch(cell)
    last = layer.offsets[-1]
    right, bottom = (last[1] - first[1]) * 1.25 + 1, (last[0] - first[0]) * 1.45 + grid.height / unit
    axes.axis("off")
    axes.set(aspect="equal", xlim=(-0.02, right + 0.02), ylim=(bottom + 0.02, -0.3))


def _frame(axes: Axes, layer: ConvolutionByAttention, left: float, top: float) -> None:
    height, width = layer.grid.height, layer.grid.width
    unit = max(height, width)
    right, bottom = left + width / unit, top + height / unit
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, facecolor=FAINT, edgecolor=GREY, linewidth=0.6))
    axes.hlines([top + line / unit for line in range(1, height)], left, right, color="white", linewidth=0.5)
    axes.vlines([left + line / unit for line in range(1, width)], top, bottom, color="white", linewidth=0.5)


def _cells(layer: ConvolutionByAttention, read: Tensor, place: tuple[int, int]) -> Iterator[Rectangle]:
    """Yield the attended tokens and the query, in tokens from the corner of the map."""
    width, zero = layer.grid.width, max(layer.grid.height, layer.grid.width) / 6
    zeros = float(read[0])
    face = ORANGE if zeros > _LEAST else "white"
    yield Rectangle((0, -1.25 * zero), zero, zero, facecolor=face, edgecolor=GREY, linewidth=0.6)
    for token in (read[1:] > _LEAST).nonzero().flatten().tolist():
        weight = float(read[1 + token])
        yield Rectangle((token % width, token // width), 1, 1, facecolor=BLUE, alpha=weight, linewidth=0)
    inset = 0.28 if float(read[1 + place[0] * width + place[1]]) > _LEAST else 0.0
    yield Rectangle((place[1] + inset, place[0] + inset), 1 - 2 * inset, 1 - 2 * inset, facecolor=INK, linewidth=0)
