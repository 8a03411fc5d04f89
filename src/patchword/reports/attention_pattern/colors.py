"""Colours of token groups."""

import numpy as np
from matplotlib.colors import to_rgb

_FEW = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b6a600", "#7a5195")
_MANY = ("#3b4cc0", "#0f8bc2", "#0aa287", "#7fb03a", "#e0b01e", "#e8762b", "#c63d52", "#8b3fa0")


def palette(rows: int, columns: int) -> np.ndarray:
    """Return a different colour per group, (rows * columns, 3), with clear contrast between neighbours.

    Up to eight groups get colours that are distinct for everyone. Beyond, each column (or row, if there is one column)
    has its hue, darker from row to row; every second one is lighter.
    """
    if rows * columns <= len(_FEW):
        return np.array([to_rgb(colour) for colour in _FEW[: rows * columns]])
    if columns == 1:
        return palette(1, rows)
    stops = np.array([to_rgb(colour) for colour in _MANY])
    along = np.linspace(0, len(stops) - 1, columns)
    hues = np.stack([np.interp(along, range(len(stops)), stops[:, part]) for part in range(3)], 1)
    darker = np.linspace(0, 0.3, rows) if rows > 1 else np.zeros(1)
    colours = (1 - darker[:, None, None]) * hues[None]
    odd = (np.arange(rows)[:, None] + np.arange(columns)[None]) % 2 == 1
    return np.where(odd[..., None], faded(colours, 0.2), colours).reshape(-1, 3)


def faded(colours: np.ndarray, white: float) -> np.ndarray:
    """Mix colours with a fraction of white."""
    return (1 - white) * colours + white
