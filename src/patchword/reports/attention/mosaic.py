"""Attention over an image as arrays of colours: one panel, or a sheet with a row per layer and a column per head."""

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from torch import Tensor

from patchword.analysis.attention.geometry import Cell, to_pixels

_LEAST, _MOST = 84, 224  # pixels of the longer side of a panel on a sheet
GAP = 6
STRENGTH = 0.68  # opacity of the colours over the image
HEAT = "viridis"


def grey(pixels: Tensor) -> np.ndarray:
    """Convert to grey, since the map has the colours: (channels, height, width) uint8 -> (height, width, 3)."""
    values = pixels.double() / 255
    flat = values[0] if len(values) == 1 else values[0] * 0.299 + values[1] * 0.587 + values[2] * 0.114
    return np.repeat(flat.numpy()[..., None], 3, axis=2)


def plain(pixels: Tensor) -> np.ndarray:
    """Return the image as matplotlib expects it."""
    shown: np.ndarray = pixels.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()
    return shown


def over(pixels: Tensor, weights: Tensor, cell: Cell) -> np.ndarray:
    """Draw (rows, columns) as colours over the image, from 0 to the largest; pixels have the colour of their patch."""
    return _blended(grey(pixels), on_image(pixels, weights, cell))


def on_image(pixels: Tensor, weights: Tensor, cell: Cell) -> np.ndarray:
    """Return the weight of the patch of each pixel, relative to the largest: (height, width) from 0 to 1."""
    height, width = pixels.shape[-2:]
    spread = to_pixels(weights.double(), cell, (height, width))
    relative: np.ndarray = (spread / spread.max().clamp(min=1e-12)).numpy()
    return relative


def _blended(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    coloured: np.ndarray = colormaps[HEAT](weights)[..., :3]
    blended: np.ndarray = STRENGTH * coloured + (1 - STRENGTH) * image
    return blended


def sheet(pixels: Tensor, rows: Sequence[Sequence[tuple[Tensor, Cell] | None]]) -> tuple[np.ndarray, tuple[int, int]]:
    """Return all panels as one array on white, and height and width of a panel with its gap; None stays white."""
    image = grey(pixels)
    height, width = image.shape[:2]
    times = max(1, _LEAST // max(height, width))
    step = max(1, -(-max(height, width) // _MOST))  # subsampling of large images
    high, wide = len(range(0, height, step)) * times + GAP, len(range(0, width, step)) * times + GAP
    page = np.ones((len(rows) * high - GAP, max(map(len, rows)) * wide - GAP, 3))
    for number, row in enumerate(rows):
        for column, panel in enumerate(row):
            if panel is not None:
                shown = _blended(image, on_image(pixels, *panel))[::step, ::step]
                shown = shown.repeat(times, axis=0).repeat(times, axis=1)
                top, left = number * high, column * wide
                page[top : top + shown.shape[0], left : left + shown.shape[1]] = shown
    return page, (high, wide)
