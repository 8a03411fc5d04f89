"""Augmentation: batched tensor code on the device; every sample's changes follow from (seed, epoch, sample)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.card import Preparation
from patchword.data.randomness import integers, uniform

_FLIP, _ROWS, _COLUMNS, _ERASE = 2, 3, 4, 5  # purposes of the random numbers


@dataclass(frozen=True)
class Augmentation:
    """Changes that keep the class: mirror left and right, shift by a few pixels, blank out a square."""

    flip: float = 0.0  # the chance of a mirror image
    shift: int = 0  # at most so many pixels, each way; the border is filled with black
    erase: float = 0.0  # the chance of a blank square

    def __call__(self, pixels: Tensor, seed: int, epoch: int, index: Tensor) -> Tensor:
        """(batch, channels, height, width) uint8 -> the same"""
        index = index.to(pixels.device)
        if self.flip:
            mirrored = uniform(seed, epoch, index, _FLIP) < self.flip
            pixels = torch.where(mirrored.view(-1, 1, 1, 1), pixels.flip(-1), pixels)
        if self.shift:
            rows = integers(seed, epoch, index, _ROWS, -self.shift, self.shift)
            columns = integers(seed, epoch, index, _COLUMNS, -self.shift, self.shift)
            pixels = shifted(pixels, rows, columns, self.shift)
        if self.erase:
            pixels = erased(pixels, uniform(seed, epoch, index, _ERASE) < self.erase, seed, epoch, index)
        return pixels


def shifted(pixels: Tensor, rows: Tensor, columns: Tensor, most: int) -> Tensor:
    """each picture moved down by its `rows` and right by its `columns`"""
    batch, _, height, width = pixels.shape
    padded = F.pad(pixels, (most, most, most, most))
    row = torch.arange(height, device=pixels.device) + most - rows[:, None]
    column = torch.arange(width, device=pixels.device) + most - columns[:, None]
    picture = torch.arange(batch, device=pixels.device).view(-1, 1, 1)
    moved = padded[picture, :, row[:, :, None], column[:, None, :]]  # (batch, height, width, channels)
    return moved.permute(0, 3, 1, 2)


def erased(pixels: Tensor, chosen: Tensor, seed: int, epoch: int, index: Tensor) -> Tensor:
    """a square of a quarter of each side, black, somewhere in the chosen pictures"""
    height, width = pixels.shape[2:]
    top = integers(seed, epoch, index, _ERASE + 1, 0, height - height // 4)[:, None]
    left = integers(seed, epoch, index, _ERASE + 2, 0, width - width // 4)[:, None]
    rows = torch.arange(height, device=pixels.device)
    columns = torch.arange(width, device=pixels.device)
    in_rows = (rows >= top) & (rows < top + height // 4)
    in_columns = (columns >= left) & (columns < left + width // 4)
    blank = in_rows[:, :, None] & in_columns[:, None, :] & chosen[:, None, None]
    return pixels.masked_fill(blank[:, None], 0)


def prepared(pixels: Tensor, preparation: Preparation) -> Tensor:
    """uint8 -> float32, normalised; one mean and std serve all channels if only one is given"""
    mean = torch.tensor(preparation.mean, device=pixels.device).view(1, -1, 1, 1)
    std = torch.tensor(preparation.std, device=pixels.device).view(1, -1, 1, 1)
    return (pixels.float() / 255 - mean) / std
