"""A part of a resized image with its label map, computed without the rest."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor


class Window(NamedTuple):
    """A rectangle of a resized image. size: height and width of the whole resized image."""

    size: tuple[int, int]
    top: int
    left: int
    height: int
    width: int


def resized_window(pixels: Tensor, window: Window) -> Tensor:
    """Return the window of the image after a bilinear resize with antialiasing. pixels: (channels, height, width)
    uint8."""
    size, top, left, height, width = window
    if size == tuple(pixels.shape[1:]):
        return pixels[:, top : top + height, left : left + width]
    down, across = pixels.shape[1] / size[0], pixels.shape[2] / size[1]
    ends = min((left + width) * across, pixels.shape[2]), min((top + height) * down, pixels.shape[1])
    box = (left * across, top * down, *ends)
    found = np.empty((pixels.shape[0], height, width), np.uint8)
    for plane, resized in zip(pixels.numpy(), found, strict=True):
        resized[:] = np.asarray(Image.fromarray(plane).resize((width, height), Image.Resampling.BILINEAR, box))
    return torch.from_numpy(found)


def resized_labels(labels: Tensor, window: Window) -> Tensor:
    """Return the window of the label map after a resize that takes the label at the centre of each new pixel."""
    rows = _nearest(window.top, window.height, window.size[0], labels.shape[0])
    columns = _nearest(window.left, window.width, window.size[1], labels.shape[1])
    return torch.from_numpy(labels.numpy().take(rows, 0).take(columns, 1))  # several times as fast as torch


def _nearest(first: int, count: int, new: int, old: int) -> NDArray[np.int64]:
    """Return the old pixels of `count` new ones from `first` on. new, old: lengths of the whole side."""
    centers = (np.arange(first, first + count, dtype=np.float32) + np.float32(0.5)) * np.float32(old / new)
    return np.minimum(centers.astype(np.int64), old - 1)
