"""Random fields that depend on (seed, sample, kind) and on nothing else: not on the batch, the severity, the device."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.data.randomness import uniform

_PLACES = 1 << 24  # numbers that a sample may use for one purpose
_FIRST = 64  # purposes below are those of training


@dataclass(frozen=True)
class RandomFields:
    """The random numbers of one kind of corruption. index: (batch,) the samples' numbers in their set."""

    seed: int
    kind: int
    index: Tensor

    def uniform(self, purpose: int, *shape: int) -> Tensor:
        """(batch, *shape) in [0, 1)"""
        count = math.prod(shape)
        place = torch.arange(count, device=self.index.device)
        numbers = uniform(self.seed, self.kind, self.index.long()[:, None] * _PLACES + place, _FIRST + purpose)
        return numbers.view(len(self.index), *shape)

    def normal(self, purpose: int, *shape: int) -> Tensor:
        """Box and Muller's way from two uniform numbers to a normal one; purposes count by two."""
        first, second = (self.uniform(2 * purpose + part + 100, *shape) for part in (0, 1))
        return (-2 * (first + 2**-25).log()).sqrt() * (2 * math.pi * second).cos()

    def smooth(self, purpose: int, cells: int, height: int, width: int, count: int = 1) -> Tensor:
        """(batch, count, height, width) from 0 to 1: values at `cells` points a side, cubic between them"""
        return F.interpolate(
            self.uniform(purpose, count, cells, cells), (height, width), mode="bicubic", align_corners=False
        ).clamp(0, 1)

    def plasma(self, purpose: int, height: int, width: int) -> Tensor:
        """(batch, 1, height, width) from 0 to 1: clouds, a sum of ever finer and weaker fields"""
        total: Tensor = torch.zeros((), device=self.index.device)
        cells, weight, octave = 2, 1.0, 0
        while cells <= 2 * max(height, width) and octave < 7:
            total = total + weight * self.smooth(purpose + octave, cells, height, width)
            cells, weight, octave = cells * 2, weight * 0.55, octave + 1
        low, high = total.amin((2, 3), keepdim=True), total.amax((2, 3), keepdim=True)
        return (total - low) / (high - low).clamp(min=1e-6)
