"""Slides of what an image model attends to: the image beside maps of layers and heads, rollout, or relevance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from patchword.analysis.attention.geometry import Cell
from patchword.inspection.attention import ImageAttention, LayerAttention
from patchword.reports.attention.distances import distance_figure
from patchword.reports.attention.mosaic import over, plain, sheet
from patchword.reports.attention.query_mark import QueryMark
from patchword.reports.colors import QUERY
from patchword.reports.plots.numbers import counted, shortened
from patchword.reports.plots.shading import scale
from patchword.reports.plots.slide import HEADING, HEIGHT, MARGIN, NOTE, TOP, WIDTH, Box, Slide

_IMAGE, _BAR = 3.0, 1.35  # inches: the image beside a sheet; the colour bar with its label
_SMALL_SQUARE = 0.05  # of [CLS] above a large image, of its side: it leaves room for the title
_BELOW = HEIGHT - TOP - 0.75  # inches below the titles


def figures_of(look: ImageAttention, wanted: Sequence[str]) -> dict[str, Figure]:
    """Return the figures by file name without an ending. wanted: of maps, rollout, relevance and distance."""
    found: dict[str, Figure] = {}
    if "maps" in wanted:
        single = len(look.layers) == 1 and len(look.layers[0].heads) == 1
        found["maps"] = _one(look, look.layers[0]) if single else _sheet(look)
    if "rollout" in wanted and look.rollout is not None:
        title = f"attention rollout through all layers, from {look.asker}"
        found["rollout"] = _beside(look, look.rollout, title, "rollout")
    if "relevance" in wanted and look.relevance is not None:
        title = f"relevance for {shortened(look.about, 40)}"
        found["relevance"] = _beside(look, look.relevance, title, "relevance", asks=False)
    if "distance" in wanted:
        depths = [(layer.number, layer.distance) for layer in look.layers]
        title = f"{look.model}: mean attention distance{_averaged(look)}"
        found["distance"] = distance_figure(depths, title, "pixels", size_text(look.pixels))
    return found


def size_text(pixels: Tensor) -> str:
    """Return the size of an image in words."""
    height, width = pixels.shape[-2:]
    return f"the image is {width} x {height} pixels"


def _averaged(look: ImageAttention) -> str:
    return f" (mean over {counted(look.images, 'image')})" if look.images > 1 else ""


def _predicted(look: ImageAttention) -> str:
    return f"Predicted: {look.prediction}. " if look.prediction else ""


def _sheet(look: ImageAttention) -> Slide:
    """Draw the image, and a row per layer, a column per head, and the mean of the heads if all are shown."""
    heads = sorted({head for layer in look.layers for head in layer.heads})
    numbers = [layer.number for layer in look.layers]
    rows = [_row(layer, heads) for layer in look.layers]
    shown = sheet(look.pixels, rows)
    where = f"layer {numbers[0]}" if len(numbers) == 1 else f"layers {numbers[0]} to {numbers[-1]}"
    slide = Slide(
        f"{look.model}, {where}: attention from {look.asker}{_averaged(look)}",
        f"{_predicted(look)}Each map is relative to its largest patch; blue marks the query.",
    )
    _image(slide, look, (MARGIN, TOP + 0.2, _IMAGE, _IMAGE), look.layers[-1].cell)
    left = MARGIN + _IMAGE + 0.95
    axes = slide.area((left, TOP, WIDTH - left - _BAR - MARGIN, _BELOW))
    axes.imshow(shown.page, interpolation="nearest")
    (high, wide), gap = shown.step, shown.gap
    for row, (layer, panels) in enumerate(zip(look.layers, rows, strict=True)):
        mark = _mark(look, layer.from_token)
        for column, panel in enumerate(panels):
            if panel is not None:
                mark.draw(axes, layer.cell, (column * wide - 0.5, row * high + gap - 0.5), shown.scale)
    names = [*map(str, heads), *(["mean"] if len(heads) > 1 else [])]
    size = NOTE if max(len(names), len(rows)) <= 14 else 9
    axes.set_xticks([wide * index + (wide - gap) / 2 for index in range(len(names))], names, size=size)
    axes.set_yticks([high * index + (high + gap) / 2 for index in range(len(rows))], list(map(str, numbers)), size=size)
    axes.set_xlabel("head", size=HEADING)
    axes.set_ylabel("layer", size=HEADING)
    _bare(axes)
    _scale(slide, "attention")
    return slide


def _row(layer: LayerAttention, heads: Sequence[int]) -> list[Any]:
    shown = dict(zip(layer.heads, layer.maps, strict=True))
    panels: list[Any] = [(shown[head], layer.cell) if head in shown else None for head in heads]
    return [*panels, (layer.maps.mean(0), layer.cell)] if len(heads) > 1 else panels


def _one(look: ImageAttention, layer: LayerAttention) -> Slide:
    title = f"layer {layer.number}, head {layer.heads[0]}: attention from {look.asker}"
    return _beside(look, layer.maps[0], title, "attention", layer=layer)


def _beside(
    look: ImageAttention, weights: Tensor, title: str, what: str, asks: bool = True, layer: LayerAttention | None = None
) -> Slide:
    """Draw the image, and beside it the map over the image. asks: whether the map belongs to a query."""
    between = ", " if layer else ": "
    largest = f"The largest patch has {100 * float(weights.max()):.1f}% of the attention. " if layer else ""
    blue = "Blue marks the query." if asks else ""
    slide = Slide(f"{look.model}{between}{title}{_averaged(look)}", f"{_predicted(look)}{largest}{blue}")
    side = (WIDTH - 2 * MARGIN - _BAR - 0.5) / 2
    cell = layer.cell if layer else look.cell
    _image(slide, look, (MARGIN, TOP + 0.2, side, _BELOW - 0.3), cell if asks else None, _SMALL_SQUARE)
    axes = slide.area((MARGIN + side + 0.5, TOP + 0.2, side, _BELOW - 0.3))
    axes.imshow(over(look.pixels, weights, cell), interpolation="nearest")
    axes.set_xlabel(what, size=HEADING)
    _bare(axes)
    if asks:
        _mark(look, layer.from_token if layer else look.layers[-1].from_token, _SMALL_SQUARE).draw(axes, cell)
    _scale(slide, what)
    return slide


def _image(slide: Slide, look: ImageAttention, box: Box, cell: Cell | None, square: float = 0.09) -> None:
    """Draw the image as it is, with the query marked if `cell`, the size of its patch, is given. square: of [CLS]"""
    height, width = look.pixels.shape[-2:]
    axes = slide.area(box)
    axes.imshow(plain(look.pixels), interpolation="nearest")
    axes.set_xlabel(f"image, {width} × {height} pixels", size=HEADING)
    _bare(axes)
    if cell is None:
        return
    mark = _mark(look, look.layers[-1].from_token, square)
    mark.draw(axes, cell)
    if mark.at is None and mark.has_token:
        axes.annotate(
            "[CLS]", (square + 0.03, 1 + 0.2 * square), xycoords="axes fraction", size=HEADING, color=QUERY, va="bottom"
        )


def _mark(look: ImageAttention, has_token: bool, square: float = 0.09) -> QueryMark:
    height, width = look.pixels.shape[-2:]
    return QueryMark((height, width), look.at, has_token, square)


def _bare(axes: Axes) -> None:
    axes.tick_params(length=0)
    axes.grid(visible=False)
    if not axes.get_ylabel():
        axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _scale(slide: Slide, what: str) -> None:
    place = slide.area((WIDTH - MARGIN - 1.1, TOP + 0.4, 0.25, _BELOW - 0.8))
    bar = slide.colorbar(ScalarMappable(Normalize(0, 1), scale()), cax=place)
    bar.ax.set_yticks(np.linspace(0, 1, 5), [f"{tick:.0%}" for tick in np.linspace(0, 1, 5)], size=NOTE)
    bar.ax.grid(visible=False)
    bar.set_label(f"{what}, relative to the largest patch", size=NOTE)
