"""Colour and sharpness operations that are not lookup tables; colour jitter and 3-Augment."""

from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.data.augmentation import lookup_tables as tables
from patchword.data.augmentation.geometry import resampled
from patchword.data.augmentation.lookup_tables import blended, grey, with_table
from patchword.data.augmentation.random_draws import Draws, Purpose
from patchword.data.augmentation.stage import StageContext, StagePlan, apply_to, broadcast, with_amounts

_ORDERS = torch.tensor([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]])


def colour(pixels: Tensor, factor: Tensor) -> Tensor:
    """Change saturation: factors below 1 blend towards grey, above 1 away from it."""
    return pixels if pixels.shape[1] == 1 else blended(grey(pixels), pixels, broadcast(factor, pixels))


def sharpness(pixels: Tensor, factor: Tensor) -> Tensor:
    """Change sharpness: factors below 1 blend towards a smoothed image, above 1 away from it."""
    return blended(smooth(pixels), pixels, broadcast(factor, pixels))


def smooth(pixels: Tensor) -> Tensor:
    """Smooth with a 3 x 3 kernel whose centre has weight 5, as in Pillow; the border is unchanged."""
    values, middle = pixels.int(), pixels.clone()
    rows = values[..., :-2, :] + values[..., 1:-1, :] + values[..., 2:, :]
    sums = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * values[..., 1:-1, 1:-1]
    middle[..., 1:-1, 1:-1] = (2 * sums + 13) // 26  # division by 13 with rounding
    return middle


def blur(pixels: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur as two matrix products; weights are normalised inside the image."""
    height, width = pixels.shape[-2:]
    return resampled(pixels, _bells(sigma, height), _bells(sigma, width))


def _bells(sigma: Tensor, side: int) -> Tensor:
    """Return (batch, side, side), each row a normalised Gaussian around its pixel."""
    place = torch.arange(side, dtype=torch.float32, device=sigma.device)
    distance = (place[:, None] - place)[None] / sigma.view(-1, 1, 1).clamp(min=1e-3)
    return torch.softmax(-distance.square() / 2, dim=2)


@dataclass(frozen=True)
class ColorJitter:
    """Colour jitter: brightness, contrast and saturation by factors in 1 +- strength, in random order."""

    strength: float

    def plan(self, draws: Draws) -> StagePlan:
        host = draws.host
        kinds = (Purpose.BRIGHTNESS, Purpose.CONTRAST, Purpose.SATURATION)
        factors = torch.stack([(1 + self.strength * (2 * host.uniform(kind) - 1)).clamp(min=0) for kind in kinds], 1)
        return factors, _ORDERS[host.integers(Purpose.JITTER_ORDER, 0, len(_ORDERS) - 1)]

    def __call__(self, pixels: Tensor, plan: StagePlan, given: StageContext) -> Tensor:
        factors, orders = plan
        changes = (with_table(tables.brightness), with_table(tables.contrast), colour)
        for turn in range(3):
            kinds = orders[:, turn]
            for kind, change in enumerate(changes):
                pixels = apply_to(pixels, kinds == kind, with_amounts(change, factors[:, kind]))
        return pixels


@dataclass(frozen=True)
class ThreeAugment:
    """3-Augment (Touvron et al., 2022): one of greyscale, solarize and blur for each chosen image."""

    probability: float
    sigma: tuple[float, float] = (0.1, 2.0)  # pixels

    def plan(self, draws: Draws) -> StagePlan:
        host = draws.host
        kinds = host.integers(Purpose.THREE_KIND, 0, 2)
        low, high = self.sigma
        return (
            torch.where(host.uniform(Purpose.THREE) < self.probability, kinds, 3),
            low + (high - low) * host.uniform(Purpose.BLUR),
        )

    def __call__(self, pixels: Tensor, plan: StagePlan, given: StageContext) -> Tensor:
        kinds, sigma = plan
        half = torch.full((len(kinds),), 128.0)
        pixels = apply_to(pixels, kinds == 0, lambda chosen, rows: grey(chosen).expand_as(chosen))
        pixels = apply_to(pixels, kinds == 1, with_amounts(with_table(tables.solarize), half))
        return apply_to(pixels, kinds == 2, with_amounts(blur, sigma))
