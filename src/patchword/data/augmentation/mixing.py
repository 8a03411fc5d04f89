"""Mixup and CutMix: combine two images and their labels."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.device import to_device
from patchword.data.augmentation.boxes import box_mask
from patchword.data.augmentation.random_draws import Draws, Purpose
from patchword.data.augmentation.stage import StagePlan

_KNOTS = 4097


@dataclass(frozen=True)
class Mixing:
    """Per sample Mixup (Zhang et al., 2017), CutMix (Yun et al., 2019) or neither. The weight of the first image is
    drawn
    from Beta(a, a), with a = `mixup` or `cutmix`; 0 is off."""

    mixup: float
    cutmix: float
    probability: float = 1.0
    switch: float = 0.5  # probability of CutMix if both are on

    def plan(self, draws: Draws) -> StagePlan:
        """Draw the weight of the first image, whether to use CutMix, and the centre of the box in [0, 1)."""
        host = draws.host
        switch = self.switch if self.mixup and self.cutmix else float(self.cutmix > 0)
        cut = host.uniform(Purpose.SWITCH) < switch
        drawn = host.uniform(Purpose.SHARE)
        fraction = torch.where(cut, beta(drawn, self.cutmix or 1.0), beta(drawn, self.mixup or 1.0))
        mixed = host.uniform(Purpose.MIX) < self.probability
        return torch.where(mixed, fraction, 1.0), cut, host.uniform(Purpose.CUT_TOP), host.uniform(Purpose.CUT_LEFT)

    def __call__(self, inputs: Tensor, others: Tensor, plan: StagePlan) -> tuple[Tensor, Tensor]:
        """Mix images with their partners; return the mixed images and (batch,) weights of the first images."""
        fraction, cut, top, left = plan
        height, width = inputs.shape[-2:]
        rows, columns = _side(fraction, top, height), _side(fraction, left, width)
        kept = torch.where(cut, 1 - (rows[1] * columns[1]) / (height * width), fraction)  # the border may clip the box
        there, is_cut = (to_device(value, inputs.device).view(-1, 1, 1, 1) for value in (fraction, cut))
        sides = to_device(torch.stack([rows, columns]), inputs.device)
        box = box_mask(sides[0], sides[1], inputs)
        weight = torch.where(is_cut, (~box).to(inputs.dtype), there.to(inputs.dtype))
        return torch.lerp(others, inputs, weight), to_device(kept, inputs.device)


def mixed_labels(labels: Tensor, others: Tensor, kept: Tensor, classes: int) -> Tensor:
    """Return (batch, classes), the class probabilities of mixed images."""
    first, second = F.one_hot(labels, classes), F.one_hot(others, classes)
    return kept[:, None] * first + (1 - kept[:, None]) * second


def _side(fraction: Tensor, middle: Tensor, side: int) -> Tensor:
    """Return (2, batch), the start and length of a box along a side, clipped at the border."""
    length = (side * np.sqrt(1 - fraction.numpy())).astype(np.int64)
    first = (middle.numpy() * side).astype(np.int64) - length // 2
    end, first = np.minimum(first + length, side), np.maximum(first, 0)
    return torch.from_numpy(np.stack([first, end - first]))


def beta(uniform: Tensor, concentration: float) -> Tensor:
    """Convert uniform numbers to Beta(a, a) samples by the inverse distribution function."""
    areas, powers = _inverse_beta(concentration)
    lower = torch.minimum(uniform.double(), 1 - uniform.double())
    found = torch.from_numpy(np.interp(lower.numpy(), areas, powers)) ** (1 / min(concentration, 1.0))
    return torch.where(uniform < 0.5, found, 1 - found).float()


@lru_cache(maxsize=8)
def _inverse_beta(concentration: float) -> tuple[np.ndarray, np.ndarray]:
    """Tabulate the lower half of the distribution function at points x, with x^b at these points, b = min(a, 1).

    With t = x^b the density x^(a-1) (1-x)^(a-1) dx is x^(a-b) (1-x)^(a-1) dt / b, which is bounded up to x = 1/2. It is
    divided by its value at 1/2, since it would underflow for large a.
    """
    power = min(concentration, 1.0)
    powers = np.linspace(0, 0.5**power, _KNOTS)
    places = powers ** (1 / power)
    near_zero = 2 * places if concentration > 1 else np.ones(_KNOTS)
    density = (near_zero * (2 - 2 * places)) ** (concentration - 1)
    areas = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return areas / areas[-1] / 2, powers
