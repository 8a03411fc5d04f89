"""Attention between tokens on a slide: a matrix with words on both axes, and a sheet of all layers and heads."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from torch import Tensor

from patchword.inspection.attention_texts import TextLayerLook
from patchword.reports.colors import TEXT
from patchword.reports.plots.numbers import shortened
from patchword.reports.plots.slide import HEADING, MARGIN, NOTE, TOP, WIDTH, Slide

_COLORS = "Blues"
_SIDE, _DOWN = 4.0, TOP + 0.6  # inches of a matrix, and its top; below it are the words of the keys
_LARGEST, _SMALLEST = 15, 9  # points of a word; if they do not fit, every second, third, ... word is written
_LETTERS = 13  # of a word
_GAP, _PANEL = 6, 96  # pixels of a sheet


class Matrix(NamedTuple):
    """weights: (query tokens, key tokens). what: the name of a weight."""

    words: Sequence[str]
    weights: Tensor
    title: str
    what: str


def draw_matrix(slide: Slide, matrix: Matrix, left: float) -> None:
    """Draw a matrix with its words and its colour bar; `left` is that of the matrix, in inches."""
    count = len(matrix.words)
    slide.words(left, TOP, matrix.title, size=HEADING, weight="bold")
    axes = slide.area((left, _DOWN, _SIDE, _SIDE))
    shown = axes.imshow(matrix.weights.numpy(), cmap=_COLORS, vmin=0, vmax=float(matrix.weights.max()))
    size, every = word_size(count)
    places = range(0, count, every)
    names = [shortened(matrix.words[place], _LETTERS) for place in places]
    axes.set_xticks(places, names, rotation=90, size=size)
    axes.set_yticks(places, names, size=size)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(f"key token ({_named(count, every)})" if every > 1 else "key token", size=NOTE)
    axes.set_ylabel("query token", size=NOTE)
    axes.tick_params(length=0 if every == 1 else 3)
    axes.grid(visible=False)
    bar = slide.colorbar(shown, cax=slide.area((left + _SIDE + 0.15, _DOWN, 0.18, _SIDE)))
    bar.ax.grid(visible=False)
    bar.ax.tick_params(labelsize=NOTE - 1)
    bar.set_label(matrix.what, size=NOTE)


def word_size(count: int) -> tuple[float, int]:
    """Return the points of a word, and which words are written: every one, or every second, third, ..."""
    row = 0.82 * 72 * _SIDE / count  # points
    return min(_LARGEST, max(_SMALLEST, row)), max(1, ceil(_SMALLEST / row))


def _named(count: int, every: int) -> str:
    ordinal = {2: "second", 3: "third"}.get(every, f"{every}th")
    return f"{count} tokens; every {ordinal} is named"


def draw_sheet(slide: Slide, layers: Sequence[TextLayerLook]) -> None:
    """Draw a row per layer, a column per head at the right of a slide; in each panel, queries are rows."""
    count = layers[0].weights.shape[-1]
    side = count * max(1, _PANEL // count)
    heads = sorted({head for layer in layers for head in layer.heads})
    step = side + _GAP
    page = np.ones((len(layers) * step - _GAP, len(heads) * step - _GAP, 3))
    for row, layer in enumerate(layers):
        for head, weights in zip(layer.heads, layer.weights, strict=True):
            relative = (weights / weights.max().clamp(min=1e-12)).numpy()
            panel = colormaps[_COLORS](relative)[..., :3].repeat(side // count, axis=0).repeat(side // count, axis=1)
            top, left = row * step, heads.index(head) * step
            page[top : top + side, left : left + side] = panel
    begin = MARGIN + 1.75 + _SIDE + 1.75
    slide.words(begin, TOP, "each layer and head, relative to the\npanel's largest weight", size=NOTE, color=TEXT)
    axes = slide.area((begin, TOP + 0.55, WIDTH - begin - MARGIN, 4.6))
    axes.imshow(page, interpolation="nearest")
    axes.set_anchor("N")
    _number(axes, [layer.number for layer in layers], heads, step, side)


def _number(axes: Axes, layers: Sequence[int], heads: Sequence[int], step: int, side: int) -> None:
    size = NOTE if max(len(layers), len(heads)) <= 8 else 10
    axes.set_xticks([step * index + side / 2 for index in range(len(heads))], list(map(str, heads)), size=size)
    axes.set_yticks([step * index + side / 2 for index in range(len(layers))], list(map(str, layers)), size=size)
    axes.set_xlabel("head", size=NOTE)
    axes.set_ylabel("layer", size=NOTE)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
