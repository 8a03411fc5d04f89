"""Weights as colours over an image, so that neither hides the other, whether the image is dark or bright."""

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from torch import Tensor

_DARKEST = 0.7  # of the light grey image: the colours, which are darker, stay visible on it
_MIDDLE = 0.85  # the grey below the colours of the scale
_MOST = 0.78  # opacity: the image is visible below the largest weight, too
_FROM_YELLOW = 0.2  # the part of the colour map below it is nearly white


def light_grey(pixels: Tensor) -> np.ndarray:
    """Return an image in light greys of full contrast: (channels, height, width) uint8 -> (height, width)."""
    values = pixels.double() / 255
    flat = (values[0] if len(values) == 1 else values[0] * 0.299 + values[1] * 0.587 + values[2] * 0.114).numpy()
    low, high = np.percentile(flat, (1, 99))
    if high <= low:
        low, high = 0.0, 1.0
    stretched: np.ndarray = ((flat - low) / (high - low)).clip(0, 1)
    return _DARKEST + (1 - _DARKEST) * stretched


def shaded(grey: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Draw weights from 0 to 1 as colours over greys of the same shape; the smaller, the more transparent."""
    coloured = colormaps["YlOrRd"](_FROM_YELLOW + (1 - _FROM_YELLOW) * weights)[..., :3]
    opacity = (_MOST * weights**0.5)[..., None]
    mixed: np.ndarray = opacity * coloured + (1 - opacity) * grey[..., None]
    return mixed


def scale() -> ListedColormap:
    """Return the colours of a colour bar: those of `shaded` over a middle grey."""
    values = np.linspace(0, 1, 256)
    return ListedColormap([tuple(color) for color in shaded(np.full(256, _MIDDLE), values)])
