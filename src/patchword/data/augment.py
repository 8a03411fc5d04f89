"""Augmentation: batched tensor code on the device; every sample's changes follow from (seed, epoch, sample)."""

from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.card import Preparation
from patchword.data.randomness import integers, uniform

_FLIP, _ROWS, _COLUMNS, _ERASE, _TOP, _LEFT = range(2, 8)  # purposes of the random numbers


@dataclass(frozen=True)
class Changes:
    """What happens to each sample of an epoch or a batch; one entry a sample."""

    mirrored: Tensor  # bool
    rows: Tensor  # pixels down
    columns: Tensor  # pixels to the right
    blanked: Tensor  # bool: a square is blanked out
    top: Tensor  # in [0, 1): where the square begins
    left: Tensor

    def part(self, start: int, end: int) -> "Changes":
        return Changes(*(value[start:end] for value in vars(self).values()))


@dataclass(frozen=True)
class Augmentation:
    """Changes that keep the class: mirror left and right, shift by a few pixels, blank out a square."""

    flip: float = 0.0  # the chance of a mirror image
    shift: int = 0  # at most so many pixels, each way; the border is filled with black
    erase: float = 0.0  # the chance of a blank square, a quarter of each side long

    def changes(self, seed: int, epoch: int, index: Tensor) -> Changes:
        """Drawn for a whole epoch at once, since many small draws would cost more than the changes themselves."""
        return Changes(
            uniform(seed, epoch, index, _FLIP) < self.flip,
            integers(seed, epoch, index, _ROWS, -self.shift, self.shift),
            integers(seed, epoch, index, _COLUMNS, -self.shift, self.shift),
            uniform(seed, epoch, index, _ERASE) < self.erase,
            uniform(seed, epoch, index, _TOP),
            uniform(seed, epoch, index, _LEFT),
        )

    def apply(self, pixels: Tensor, changes: Changes) -> Tensor:
        """(batch, channels, height, width) uint8 -> the same"""
        if self.flip:
            pixels = torch.where(changes.mirrored.view(-1, 1, 1, 1), pixels.flip(-1), pixels)
        if self.shift:
            pixels = shifted(pixels, changes.rows, changes.columns, self.shift)
        if self.erase:
            pixels = erased(pixels, changes)
        return pixels

    def __call__(self, pixels: Tensor, seed: int, epoch: int, index: Tensor) -> Tensor:
        return self.apply(pixels, self.changes(seed, epoch, index.to(pixels.device)))


def shifted(pixels: Tensor, rows: Tensor, columns: Tensor, most: int) -> Tensor:
    """each picture moved down by its `rows` and right by its `columns`"""
    batch, _, height, width = pixels.shape
    padded = F.pad(pixels, (most, most, most, most))
    row = torch.arange(height, device=pixels.device) + most - rows[:, None]
    column = torch.arange(width, device=pixels.device) + most - columns[:, None]
    picture = torch.arange(batch, device=pixels.device).view(-1, 1, 1)
    moved = padded[picture, :, row[:, :, None], column[:, None, :]]  # (batch, height, width, channels)
    return moved.permute(0, 3, 1, 2)


def erased(pixels: Tensor, changes: Changes) -> Tensor:
    """a black square somewhere in the chosen pictures"""
    inside = []
    for axis, start in ((2, changes.top), (3, changes.left)):
        side, length = pixels.shape[axis], pixels.shape[axis] // 4
        first = (start * (side - length + 1)).long()[:, None]
        place = torch.arange(side, device=pixels.device)
        inside.append((place >= first) & (place < first + length))
    blank = inside[0][:, :, None] & inside[1][:, None, :] & changes.blanked[:, None, None]
    return pixels.masked_fill(blank[:, None], 0)


def prepared(pixels: Tensor, preparation: Preparation) -> Tensor:
    """uint8 -> float32, normalised; one mean and std serve all channels if only one is given"""
    scale, offset = _constants(preparation, pixels.device)
    return torch.addcmul(offset, pixels.float(), scale)


@lru_cache(maxsize=8)
def _constants(preparation: Preparation, device: torch.device) -> tuple[Tensor, Tensor]:
    """(pixels / 255 - mean) / std as pixels * scale + offset; kept, since a copy to an accelerator makes it wait"""
    both = (preparation.mean, preparation.std)
    mean, std = (torch.tensor(part, dtype=torch.float64).view(1, -1, 1, 1) for part in both)
    return (1 / (255 * std)).float().to(device), (-mean / std).float().to(device)
