"""Figures of what an image model attends to: maps of layers and heads, rollout, relevance, attention distance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from patchword.inspection.attention import ImageAttention, LayerAttention
from patchword.reports.attention.distances import distance_figure
from patchword.reports.attention.mosaic import GAP, HEAT, over, plain, sheet
from patchword.reports.plots.numbers import counted, shortened


def figures_of(look: ImageAttention, wanted: Sequence[str]) -> dict[str, Figure]:
    """Return the figures by file name without an ending. wanted: of maps, rollout, relevance and distance."""
    found: dict[str, Figure] = {}
    if "maps" in wanted:
        single = len(look.layers) == 1 and len(look.layers[0].heads) == 1
        found["maps"] = _one(look, look.layers[0]) if single else _sheet(look)
    if "rollout" in wanted and look.rollout is not None:
        title = f"attention rollout through all layers, from {look.asker}"
        found["rollout"] = _beside(look, look.rollout, title, "rollout, relative to the largest patch")
    if "relevance" in wanted and look.relevance is not None:
        title = f"relevance for {shortened(look.about, 40)}"
        found["relevance"] = _beside(look, look.relevance, title, "relevance, relative to the largest patch")
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


def _sheet(look: ImageAttention) -> Figure:
    """Draw a row per layer, a column per head, and the mean of the heads if all are shown."""
    heads = sorted({head for layer in look.layers for head in layer.heads})
    rows = [_row(layer, heads) for layer in look.layers]
    page, (high, wide) = sheet(look.pixels, rows)
    scale = min(1.1 / max(high, wide), 14 / max(page.shape[:2]))
    size = (page.shape[1] * scale + 1.9, page.shape[0] * scale + 1.0)
    figure = Figure(figsize=(max(size[0], 5.2), size[1]), layout="constrained")
    figure.suptitle(f"{look.model}: attention from {look.asker}{_averaged(look)}", size=11, wrap=True)
    axes = figure.add_subplot(xlabel="head (number)", ylabel="layer (number)")
    axes.imshow(page, interpolation="nearest")
    names = [*map(str, heads), *(["mean"] if len(heads) > 1 else [])]
    axes.set_xticks([wide * (index + 0.5) - GAP / 2 for index in range(len(names))], names)
    axes.set_yticks(
        [high * (index + 0.5) - GAP / 2 for index in range(len(rows))], [str(layer.number) for layer in look.layers]
    )
    _bare(axes)
    _scale(figure, axes, "attention, relative to the panel's largest patch")
    return figure


def _row(layer: LayerAttention, heads: Sequence[int]) -> list[Any]:
    shown = dict(zip(layer.heads, layer.maps, strict=True))
    panels: list[Any] = [(shown[head], layer.cell) if head in shown else None for head in heads]
    return [*panels, (layer.maps.mean(0), layer.cell)] if len(heads) > 1 else panels


def _one(look: ImageAttention, layer: LayerAttention) -> Figure:
    largest = 100 * float(layer.maps[0].max())
    title = f"layer {layer.number}, head {layer.heads[0]}: attention from {look.asker}"
    unit = f"attention, relative to the largest patch ({largest:.1f}%)"
    return _beside(look, layer.maps[0], title, unit, layer.cell)


def _beside(
    look: ImageAttention, weights: Tensor, title: str, unit: str, cell: tuple[float, float] | None = None
) -> Figure:
    """Draw the image, and beside it the map over the image."""
    height, width = look.pixels.shape[-2:]
    figure = Figure(figsize=(8.4, 3.1 * max(0.6, min(2.0, height / width)) + 0.85), layout="constrained")
    figure.suptitle(f"{look.model}: {title}{_averaged(look)}", size=11, wrap=True)
    for axes, image in zip(
        figure.subplots(1, 2), (plain(look.pixels), over(look.pixels, weights, cell or look.cell)), strict=True
    ):
        axes.imshow(image, interpolation="nearest")
        axes.set(xlabel="x (pixels)", ylabel="y (pixels)")
        axes.grid(visible=False)
    _scale(figure, axes, unit)
    return figure


def _bare(axes: Any) -> None:
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _scale(figure: Figure, axes: Any, unit: str) -> None:
    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), HEAT), ax=axes, shrink=0.8, label=unit)
    bar.ax.set_yticks(np.linspace(0, 1, 6), [f"{tick:.0%}" for tick in np.linspace(0, 1, 6)])
