"""Attention over a picture as arrays of colours: one panel, or a sheet of a row a layer and a column a head."""

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from torch import Tensor

from patchword.analysis.attention.geometry import Cell, to_pixels

_LEAST, _MOST = 84, 224  # pixels of a panel's longer side on a sheet
GAP = 6
STRENGTH = 0.68  # of the colours over the picture
HEAT = "viridis"


def grey(pixels: Tensor) -> np.ndarray:
    """(channels, height, width) uint8 -> (height, width, 3) from 0 to 1, without colours, which the map needs"""
    values = pixels.double() / 255
    flat = values[0] if len(values) == 1 else values[0] * 0.299 + values[1] * 0.587 + values[2] * 0.114
    return np.repeat(flat.numpy()[..., None], 3, axis=2)


def plain(pixels: Tensor) -> np.ndarray:
    """The picture itself, as matplotlib takes it."""
    shown: np.ndarray = pixels.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()
    return shown


def over(pixels: Tensor, shares: Tensor, cell: Cell) -> np.ndarray:
    """(rows, columns) from 0 to its largest as colours over the picture; every pixel has the colour of its patch"""
    return _blended(grey(pixels), on_picture(pixels, shares, cell))


def on_picture(pixels: Tensor, shares: Tensor, cell: Cell) -> np.ndarray:
    """(height, width) from 0 to 1: the share of the patch a pixel lies in, over the largest"""
    height, width = pixels.shape[-2:]
    spread = to_pixels(shares.double(), cell, (height, width))
    relative: np.ndarray = (spread / spread.max().clamp(min=1e-12)).numpy()
    return relative


def _blended(picture: np.ndarray, shares: np.ndarray) -> np.ndarray:
    coloured: np.ndarray = colormaps[HEAT](shares)[..., :3]
    blended: np.ndarray = STRENGTH * coloured + (1 - STRENGTH) * picture
    return blended


def sheet(pixels: Tensor, rows: Sequence[Sequence[tuple[Tensor, Cell] | None]]) -> tuple[np.ndarray, tuple[int, int]]:
    """All panels as one picture on white, and the height and width of a panel with its gap; None stays white."""
    picture = grey(pixels)
    height, width = picture.shape[:2]
    times = max(1, _LEAST // max(height, width))
    step = max(1, -(-max(height, width) // _MOST))  # every so many pixels of a large picture
    high, wide = len(range(0, height, step)) * times + GAP, len(range(0, width, step)) * times + GAP
    page = np.ones((len(rows) * high - GAP, max(map(len, rows)) * wide - GAP, 3))
    for number, row in enumerate(rows):
        for column, panel in enumerate(row):
            if panel is not None:
                shown = _blended(picture, on_picture(pixels, *panel))[::step, ::step]
                shown = shown.repeat(times, axis=0).repeat(times, axis=1)
                top, left = number * high, column * wide
                page[top : top + shown.shape[0], left : left + shown.shape[1]] = shown
    return page, (high, wide)
