"""Figures of what a text model attends to: from token to token, as matrices and as lines."""

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from patchword.inspection.attention_texts import TextAttention, TextLayerLook
from patchword.reports.attention.distances import distance_figure
from patchword.reports.colors import BLUE
from patchword.reports.plots.numbers import counted, shortened

_GAP, _PANEL = 6, 96  # pixels
_BAND = 0.6  # of a row: the lines of the heads are side by side in it, so that none hides another
_LEAST = 0.05  # lines of smaller attention weights are not drawn
_DEEPEST = 24  # up to this many tokens, all names are drawn at full size


def text_figures(look: TextAttention, wanted: Sequence[str]) -> dict[str, Figure]:
    """Return the figures by file name without an ending. wanted: of maps, rollout, relevance and distance."""
    found: dict[str, Figure] = {}
    if "maps" in wanted:
        found |= _maps(look)
    if "rollout" in wanted and look.rollout is not None:
        title = f"{look.model}: attention rollout through all layers"
        found["rollout"] = _matrix(look.tokens, look.rollout, title, "rollout")
    if "relevance" in wanted and look.relevance is not None:
        found["relevance"] = _bars(look.tokens, look.relevance, f"{look.model}: relevance for {look.about}")
    if "distance" in wanted:
        depths = [(layer.number, layer.distance) for layer in look.layers]
        title, size = f"{look.model}: mean attention distance", f"the text has {counted(len(look.tokens), 'token')}"
        found["distance"] = distance_figure(depths, title, "tokens", size)
    return found


def _maps(look: TextAttention) -> dict[str, Figure]:
    """Draw all layers and heads as a sheet; for one layer also the lines of its heads; for one head its matrix."""
    layer = look.layers[0]
    if len(look.layers) > 1:
        return {"maps": _sheet(look)}
    if len(layer.heads) > 1:
        return {"maps": _sheet(look), "heads": _lines(look, layer)}
    title = f"{look.model}: layer {layer.number}, head {layer.heads[0]}"
    return {"maps": _matrix(look.tokens, layer.weights[0], title, "attention"), "heads": _lines(look, layer)}


def _sheet(look: TextAttention) -> Figure:
    """Draw a row per layer, a column per head; in each panel, queries are rows and keys are columns."""
    size = len(look.tokens)
    side = size * max(1, _PANEL // size)
    heads = sorted({head for layer in look.layers for head in layer.heads})
    page = np.ones((len(look.layers) * (side + _GAP) - _GAP, len(heads) * (side + _GAP) - _GAP, 3))
    for row, layer in enumerate(look.layers):
        for head, weights in zip(layer.heads, layer.weights, strict=True):
            relative = (weights / weights.max().clamp(min=1e-12)).numpy()
            panel = colormaps["Blues"](relative)[..., :3].repeat(side // size, axis=0).repeat(side // size, axis=1)
            top, left = row * (side + _GAP), heads.index(head) * (side + _GAP)
            page[top : top + side, left : left + side] = panel
    scale = min(1.1 / side, 14 / max(page.shape[:2]))
    figure = Figure(figsize=(max(page.shape[1] * scale + 1.9, 5.0), page.shape[0] * scale + 1.1), layout="constrained")
    subtitle = "in each panel, queries from top to bottom, keys from left to right"
    figure.suptitle(f"{look.model}: attention between {counted(size, 'token')}\n{subtitle}", size=10)
    axes = figure.add_subplot(xlabel="head (number)", ylabel="layer (number)")
    axes.imshow(page, interpolation="nearest")
    axes.set_xticks([(side + _GAP) * index + side / 2 for index in range(len(heads))], [str(head) for head in heads])
    places = [(side + _GAP) * index + side / 2 for index in range(len(look.layers))]
    axes.set_yticks(places, [str(layer.number) for layer in look.layers])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    shades = ScalarMappable(Normalize(0, 1), "Blues")
    bar = figure.colorbar(shades, ax=axes, shrink=0.8, label="attention, relative to\nthe panel's largest")
    bar.ax.set_yticks([0, 0.5, 1], ["0%", "50%", "100%"])
    return figure


def _matrix(tokens: Sequence[str], weights: Tensor, title: str, unit: str) -> Figure:
    cell = min(0.32, 12 / len(tokens))
    figure = Figure(figsize=(len(tokens) * cell + 2.6, len(tokens) * cell + 1.7), layout="constrained")
    figure.suptitle(title, size=11)
    axes = figure.add_subplot(xlabel="key token", ylabel="query token")
    shown = axes.imshow(weights.numpy(), cmap="Blues", vmin=0, vmax=float(weights.max()))
    names = [shortened(token, 16) for token in tokens]
    size = 9 if len(tokens) <= _DEEPEST else 200 / len(tokens)
    axes.set_xticks(range(len(tokens)), names, rotation=90, size=size)
    axes.set_yticks(range(len(tokens)), names, size=size)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    figure.colorbar(shown, ax=axes, shrink=0.7, label=f"{unit} (rows sum to 1)")
    return figure


def _lines(look: TextAttention, layer: TextLayerLook) -> Figure:
    """Draw the head view: the tokens twice, and a line from each query to each key; one colour per head."""
    count = len(look.tokens)
    high = max(2.2, min(0.26 * count, 13)) + 1.1
    figure = Figure(figsize=(5.6, high), layout="constrained")
    figure.suptitle(f"{look.model}: layer {layer.number}, what each token attends to", size=11)
    axes = figure.add_subplot()
    colours = colormaps["tab20" if len(layer.heads) > 10 else "tab10"]
    for index, weights in enumerate(layer.weights):
        queries, keys = (weights > _LEAST).nonzero(as_tuple=True)
        aside = _BAND * ((index + 0.5) / len(layer.weights) - 0.5)
        segments = [
            ((0, one + aside), (1, other + aside)) for one, other in zip(queries.tolist(), keys.tolist(), strict=True)
        ]
        strengths = weights[queries, keys].clamp(max=1).tolist()
        drawn = LineCollection(segments, colors=[(*colours(index)[:3], strength) for strength in strengths])
        drawn.set_linewidth(1.6 if len(layer.weights) < 5 else 1.0)
        axes.add_collection(drawn)
    _named(axes, look.tokens, min(10, 260 / max(count, 26)))
    handles = [Line2D([], [], color=colours(index), label=f"head {head}") for index, head in enumerate(layer.heads)]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)), fontsize=9)
    return figure


def _named(axes: Axes, tokens: Sequence[str], size: float) -> None:
    names = [shortened(token, 18) for token in tokens]
    axes.set(xlim=(0, 1), ylim=(len(tokens) - 0.5, -0.9), ylabel="query token")
    axes.set_yticks(range(len(tokens)), names, size=size)
    right = axes.twinx()
    right.set(ylim=(len(tokens) - 0.5, -0.9), ylabel="key token")
    right.set_yticks(range(len(tokens)), names, size=size)
    axes.set_xticks([])
    for part in (axes, right):
        part.tick_params(length=0)
        part.grid(visible=False)
        for spine in part.spines.values():
            spine.set_visible(False)
    note = f"weights below {_LEAST:.0%} are not drawn"
    axes.set_xlabel(note, size=8.5)


def _bars(tokens: Sequence[str], values: Tensor, title: str) -> Figure:
    figure = Figure(figsize=(max(5.0, min(13.0, 0.34 * len(tokens) + 1.2)), 3.2), layout="constrained")
    figure.suptitle(title, size=11)
    axes = figure.add_subplot(xlabel="token", ylabel="relevance (relative to the largest)")
    axes.bar(range(len(tokens)), (values / values.max().clamp(min=1e-12)).numpy(), color=BLUE)
    size = 9 if len(tokens) <= _DEEPEST else 7 if len(tokens) < 50 else 4
    axes.set_xticks(range(len(tokens)), [shortened(token, 16) for token in tokens], rotation=90, size=size)
    axes.grid(visible=False, axis="x")
    return figure
