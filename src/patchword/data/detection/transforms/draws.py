"""Random numbers of transforms: each depends only on (seed, epoch, sample, transform, purpose)."""

from dataclasses import dataclass, replace
from enum import IntEnum

import torch

from patchword.data.augmentation.random_draws import Draws
from patchword.data.randomness import uniform_number

_STAGES = 16  # maximum transforms of one chain
_NEXT = 1000  # distance between the purposes of two transforms


class TransformPurpose(IntEnum):
    """Purposes of random numbers. A value never changes its meaning, so that old runs stay reproducible."""

    FLIP, SIDE, CROP_HEIGHT, CROP_WIDTH, CROP_TOP, CROP_LEFT, CHOICE, CENTER_X, CENTER_Y, PARTNER = range(500, 510)


@dataclass(frozen=True)
class SampleDraws:
    """The random numbers of one sample. stage: number of the transform, so that two resizes of a chain differ."""

    seed: int
    epoch: int
    index: int
    stage: int = 0

    def of_stage(self, place: int) -> "SampleDraws":
        """Return the numbers of a transform inside of another. place: its place there."""
        return replace(self, stage=self.stage * _STAGES + place + 1)

    def uniform(self, purpose: TransformPurpose, again: int = 0) -> float:
        """Return a number in [0, 1). again: index of a further draw for the same purpose."""
        purpose_of_stage = purpose + _NEXT * (self.stage + 1) + (again << 40)
        return uniform_number(self.seed, self.epoch, self.index, purpose_of_stage)

    def integer(self, purpose: TransformPurpose, low: int, high: int, again: int = 0) -> int:
        """Return a whole number in [low, high]."""
        return min(low + int(self.uniform(purpose, again) * (high - low + 1)), high)

    @property
    def of_image(self) -> Draws:
        """The numbers for the transforms of `patchword.data.augmentation`."""
        return Draws(self.seed, self.epoch, torch.tensor([self.index]))
