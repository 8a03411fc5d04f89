"""Loss landscapes over two directions, side by side on one scale: contours, 3-D surfaces and accuracy."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from patchword.analysis.sharpness.landscape import Kind, LossLandscape
from patchword.reports.landscape.axes import (
    RunLandscape,
    axis_label,
    direction,
    few_numbers,
    sample_caption,
    scale,
    short_axis_label,
)
from patchword.reports.plots.numbers import shortened


def contour_figure(landscapes: Sequence[RunLandscape], kind: Kind) -> Figure:
    """Draw contours, a 3-D surface and the accuracy of each run."""
    losses = np.stack([one.found.losses.numpy() for one in landscapes])
    norm, columns = scale(losses), len(landscapes)
    has_accuracy = all(one.has_accuracy for one in landscapes)
    rows = 3 if has_accuracy else 2
    alone = columns == 1  # then its panels are side by side
    across, down = (rows, 1) if alone else (columns, rows)
    figure = Figure(figsize=(4.8 * across + 1.3, 4.1 * down + 0.4), layout="constrained")
    figure.suptitle(
        f"Loss around the weights, along {direction(kind, 0)} and {direction(kind, 1)}", size=13, weight="bold"
    )
    grid = figure.add_gridspec(down, across)
    flat, tall, right = [], [], []
    for column, one in enumerate(landscapes):
        flat.append(figure.add_subplot(grid[0, 0 if alone else column]))
        _contours(flat[-1], one.found, losses[column], norm)
        flat[-1].set_title(shortened(one.name, 40), size=12, weight="bold")
        tall.append(figure.add_subplot(grid[(0, 1) if alone else (1, column)], projection="3d"))
        _surface_3d(tall[-1], one.found, losses[column], norm, one.loss_name, kind)
        if has_accuracy:
            right.append(figure.add_subplot(grid[(0, 2) if alone else (2, column)]))
            shades = _accuracies(right[-1], one.found)
    for axes in (*flat, *right):
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set(xlabel=axis_label(kind, 0), ylabel=axis_label(kind, 1), aspect="equal")
    colours = ScalarMappable(norm, "viridis")
    words = f"{landscapes[0].loss_name}{', logarithmic' if isinstance(norm, LogNorm) else ''}"
    bar = figure.colorbar(colours, ax=[*flat, *tall], shrink=0.55, label=f"loss: {words}")
    if isinstance(norm, LogNorm):
        few_numbers(bar.ax)
    if right:
        figure.colorbar(shades, ax=right, label="accuracy (%)", ticks=range(0, 101, 20))
    sample_caption(figure, landscapes)
    return figure


def _contours(axes: Axes, found: LossLandscape, losses: np.ndarray, norm: Normalize) -> None:
    """Draw contour lines at the same losses in every panel."""
    low, high = cast(float, norm.vmin), cast(float, norm.vmax)
    ends = np.geomspace if isinstance(norm, LogNorm) else np.linspace
    levels = np.unique(ends(low, high, 16))
    at, shown = found.places.numpy(), np.ma.masked_invalid(losses)
    axes.grid(visible=False)
    axes.contourf(at, at, shown.clip(low, high), levels=np.unique(ends(low, high, 64)), norm=norm, cmap="viridis")
    lines = axes.contour(at, at, shown, levels=levels[1:-1], colors="white", linewidths=0.6)
    axes.clabel(
        lines, list(lines.levels)[::3], fmt=lambda value: f"{value:.2g}" if value < 100 else f"{value:.0f}", fontsize=8
    )
    axes.plot(0, 0, "+", color="white", markersize=9)


def _surface_3d(
    axes: Any, found: LossLandscape, losses: np.ndarray, norm: Normalize, loss_name: str, kind: Kind
) -> None:
    first, second = np.meshgrid(found.places.numpy(), found.places.numpy())
    is_log = isinstance(norm, LogNorm)
    low, high = cast(float, norm.vmin), cast(float, norm.vmax)
    height = np.where(np.isfinite(losses), losses, np.nan)
    shades = ScalarMappable(norm, "viridis").to_rgba(np.ma.masked_invalid(losses))
    axes.plot_surface(
        first,
        second,
        np.log10(height) if is_log else height,
        facecolors=shades,
        rstride=1,
        cstride=1,
        shade=False,
        edgecolor=(1, 1, 1, 0.35),
        linewidth=0.3,
    )
    bottom, top = (np.log10(low), np.log10(high)) if is_log else (low, high)
    axes.set_zlim(bottom, top)
    if is_log:
        subs = (1, 2, 5) if high < 100 * low else (1,)  # the axis is short: more labels would overlap
        ticks = [value for value in LogLocator(subs=subs).tick_values(low, high) if low <= value <= high]
        axes.set_zticks(np.log10(ticks), [f"{value:g}" for value in ticks])
    axes.set_xlabel(short_axis_label(kind, 0), size=9, labelpad=8)
    axes.set_ylabel(short_axis_label(kind, 1), size=9, labelpad=8)
    axes.set_zlabel(f"{loss_name}, logarithmic" if is_log else loss_name, size=9)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4))
    axes.tick_params(labelsize=8)
    axes.view_init(elev=30, azim=-55)
    axes.set_box_aspect(None, zoom=0.84)


def _accuracies(axes: Axes, found: LossLandscape) -> ScalarMappable:
    at = found.places.numpy()
    axes.grid(visible=False)
    accuracies = 100 * found.accuracies.numpy()
    filled = axes.contourf(at, at, accuracies, levels=np.linspace(0, 100, 21), cmap="cividis")
    axes.plot(0, 0, "+", color="black", markersize=9)
    return filled
