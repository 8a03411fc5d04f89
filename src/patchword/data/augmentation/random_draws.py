"""The random numbers of augmentation, by purpose. Each depends only on (seed, epoch, sample, purpose)."""

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import torch
from torch import Tensor

from patchword.data.randomness import integers, uniform

_AGAIN = 1000  # offset of the purposes of further draws


class Purpose(IntEnum):
    """Purposes of random numbers. A value never changes its meaning, so that old runs stay reproducible."""

    FLIP, ROWS, COLUMNS, SQUARE, SQUARE_TOP, SQUARE_LEFT = range(2, 8)
    CROP_AREA, CROP_RATIO, CROP_TOP, CROP_LEFT = range(20, 24)
    OPERATION, APPLIED, SPREAD, SPREAD_ANGLE, SIGN = range(24, 29)
    JITTER_ORDER, BRIGHTNESS, CONTRAST, SATURATION = range(29, 33)
    THREE, THREE_KIND, BLUR = range(33, 36)
    ERASE, ERASE_AREA, ERASE_RATIO, ERASE_TOP, ERASE_LEFT, NOISE, NOISE_ANGLE = range(36, 43)
    MIX, SWITCH, SHARE, CUT_TOP, CUT_LEFT = range(43, 48)


@dataclass(frozen=True)
class Draws:
    """The random numbers of some samples, on the device of `index`."""

    seed: int
    epoch: int
    index: Tensor  # (count,) int64: index of a sample in the data set, plus an offset per further view

    @cached_property
    def host(self) -> "Draws":
        """The same draws on the CPU: selecting images by them must not synchronise with an accelerator."""
        return Draws(self.seed, self.epoch, self.index.cpu())

    def part(self, rows: slice | Tensor) -> "Draws":
        return Draws(self.seed, self.epoch, self.index[rows])

    def uniform(self, purpose: Purpose, again: int = 0) -> Tensor:
        """Return (count,) in [0, 1). again: index of a further draw for the same purpose."""
        return uniform(self.seed, self.epoch, self.index, purpose + _AGAIN * again)

    def integers(self, purpose: Purpose, low: int, high: int, again: int = 0) -> Tensor:
        """Return (count,) integers in [low, high]."""
        return integers(self.seed, self.epoch, self.index, purpose + _AGAIN * again, low, high)

    def normal(self, length: Purpose, angle: Purpose, again: int = 0) -> Tensor:
        """Return (count,) standard normal numbers (Box and Muller, 1958), from two uniform numbers each."""
        radius = (-2 * torch.log1p(-self.uniform(length, again))).sqrt()
        return radius * torch.cos(2 * math.pi * self.uniform(angle, again))

    def noise(self, places: int) -> Tensor:
        """Return (count, places) standard normal numbers."""
        place = torch.arange(places, device=self.index.device)
        each = Draws(self.seed, self.epoch, (self.index[:, None] * places + place).flatten())
        return each.normal(Purpose.NOISE, Purpose.NOISE_ANGLE).view(-1, places)
