"""Attention over an image as arrays of colours: one panel, or a sheet with a row per layer and a column per head."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from patchword.analysis.attention.geometry import Cell, to_pixels
from patchword.reports.plots.shading import light_grey, shaded

_LEAST, _MOST = 84, 224  # pixels of the longer side of a panel on a sheet
_GAP = 0.12  # of the longer side of a panel


class Sheet(NamedTuple):
    """Panels on white. step: height and width of a panel with its gap. scale: pixels of the sheet per image pixel."""

    page: np.ndarray
    step: tuple[int, int]
    gap: int
    scale: float


def plain(pixels: Tensor) -> np.ndarray:
    """Return the image as matplotlib expects it."""
    shown: np.ndarray = pixels.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()
    return shown


def over(pixels: Tensor, weights: Tensor, cell: Cell) -> np.ndarray:
    """Draw (rows, columns) as colours over the image, from 0 to the largest; pixels have the colour of their patch."""
    return shaded(light_grey(pixels), on_image(pixels, weights, cell))


def on_image(pixels: Tensor, weights: Tensor, cell: Cell) -> np.ndarray:
    """Return the weight of the patch of each pixel, relative to the largest: (height, width) from 0 to 1."""
    height, width = pixels.shape[-2:]
    spread = to_pixels(weights.double(), cell, (height, width))
    relative: np.ndarray = (spread / spread.max().clamp(min=1e-12)).clamp(min=0).numpy()
    return relative


def sheet(pixels: Tensor, rows: Sequence[Sequence[tuple[Tensor, Cell] | None]]) -> Sheet:
    """Return all panels as one array; None stays white."""
    image = light_grey(pixels)
    height, width = image.shape
    times = max(1, _LEAST // max(height, width))
    step = max(1, -(-max(height, width) // _MOST))  # subsampling of large images
    tall, broad = len(range(0, height, step)) * times, len(range(0, width, step)) * times
    gap = round(_GAP * max(tall, broad))
    high, wide = tall + gap, broad + gap
    page = np.ones((len(rows) * high, max(map(len, rows)) * wide - gap, 3))
    for number, row in enumerate(rows):
        for column, panel in enumerate(row):
            if panel is not None:
                shown = shaded(image, on_image(pixels, *panel))[::step, ::step]
                shown = shown.repeat(times, axis=0).repeat(times, axis=1)
                top, left = number * high + gap, column * wide
                page[top : top + tall, left : left + broad] = shown
    return Sheet(page, (high, wide), gap, times / step)
