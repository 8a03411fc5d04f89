"""Random fields that depend only on (seed, sample, corruption), not on batch, severity or device."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.data.randomness import uniform

_PLACES = 1 << 24  # maximum random numbers per sample and purpose
_FIRST = 64  # smaller purposes are used by training


@dataclass(frozen=True)
class RandomFields:
    """The random numbers of one corruption. index: (batch,) indices of the samples in the data set."""

    seed: int
    kind: int
    index: Tensor

    def uniform(self, purpose: int, *shape: int) -> Tensor:
        """Return (batch, *shape) in [0, 1)."""
        count = math.prod(shape)
        place = torch.arange(count, device=self.index.device)
        numbers = uniform(self.seed, self.kind, self.index.long()[:, None] * _PLACES + place, _FIRST + purpose)
        return numbers.view(len(self.index), *shape)

    def normal(self, purpose: int, *shape: int) -> Tensor:
        """Return (batch, *shape) standard normal numbers (Box-Muller); each uses two purposes."""
        first, second = (self.uniform(2 * purpose + part + 100, *shape) for part in (0, 1))
        return (-2 * (first + 2**-25).log()).sqrt() * (2 * math.pi * second).cos()

    def smooth(self, purpose: int, cells: int, height: int, width: int, count: int = 1) -> Tensor:
        """Return (batch, count, height, width) in [0, 1]: `cells` random points per side, bicubic between them."""
        return F.interpolate(
            self.uniform(purpose, count, cells, cells), (height, width), mode="bicubic", align_corners=False
        ).clamp(0, 1)

    def plasma(self, purpose: int, height: int, width: int) -> Tensor:
        """Return (batch, 1, height, width) in [0, 1]: fractal noise, a sum of finer and weaker fields."""
        total: Tensor = torch.zeros((), device=self.index.device)
        cells, weight, octave = 2, 1.0, 0
        while cells <= 2 * max(height, width) and octave < 7:
            total = total + weight * self.smooth(purpose + octave, cells, height, width)
            cells, weight, octave = cells * 2, weight * 0.55, octave + 1
        low, high = total.amin((2, 3), keepdim=True), total.amax((2, 3), keepdim=True)
        return (total - low) / (high - low).clamp(min=1e-6)
