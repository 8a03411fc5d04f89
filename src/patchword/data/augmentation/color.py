"""Colour and sharpness operations that are not lookup tables; colour jitter and 3-Augment."""

from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.core.device import to_device
from patchword.data.augmentation import lookup_tables as tables
from patchword.data.augmentation.geometry import resampled
from patchword.data.augmentation.lookup_tables import blended, exact_grey, grey, with_table
from patchword.data.augmentation.random_draws import Draws, Purpose
from patchword.data.augmentation.stage import StageContext, StagePlan, apply_to, broadcast, with_amounts

_CONTRAST, _SATURATION = 1, 2  # brightness is 0
_CACHED = 2**18  # values that the cache of a core holds as float32
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


def jitter(pixels: Tensor, factors: Tensor, orders: Tensor, counts: Tensor | None = None) -> Tensor:
    """Change brightness, contrast and saturation of each image by its own factors, in its own order.

    Each of them blends the image with a grey: black, the mean grey of the image, or the grey of each pixel. So all
    images change together, whatever their orders are. Values equal those of the single operations: 8 bits after each.

    factors: (batch, 3). orders: (batch, 3), the numbers of the operations; both on the CPU.
    counts: (batch,) pixels of each image, if it is padded with zeros; the padding has other values afterwards.
    """
    many = max(1, _CACHED // pixels.shape[1:].numel()) if pixels.device.type == "cpu" else len(pixels)
    if many < len(pixels):
        given = (pixels, factors, orders) if counts is None else (pixels, factors, orders, counts)
        return torch.cat([jitter(*part) for part in zip(*(one.split(many) for one in given), strict=True)])
    turns = to_device(torch.stack((orders.float(), factors.gather(1, orders))), pixels.device)
    kinds, amounts = turns.view(2, len(pixels), 3, 1, 1, 1).unbind()
    values = pixels.float()
    for turn in range(3):
        base = _blended_with(values, kinds[:, turn], counts)
        values.sub_(base).mul_(amounts[:, turn]).add_(base).clamp_(0, 255).trunc_()
    return values.to(torch.uint8)


def _blended_with(values: Tensor, kinds: Tensor, counts: Tensor | None) -> Tensor:
    """Return the grey that an operation blends with: (batch, 1, height, width) float32. kinds: (batch, 1, 1, 1)"""
    bright = exact_grey(values)
    total = bright.flatten(1).sum(1, dtype=torch.int64)
    count = torch.full_like(total, bright.shape[1:].numel()) if counts is None else counts
    mean = ((2 * total + count) // (2 * count)).float().view(-1, 1, 1, 1)  # rounded
    return bright.where(kinds == _SATURATION, mean * (kinds == _CONTRAST))


@dataclass(frozen=True)
class ColorJitter:
    """Colour jitter: brightness, contrast and saturation by factors in 1 +- strength, in random order."""

    strength: float

    def plan(self, draws: Draws) -> StagePlan:
        host = draws.host
        kinds = (Purpose.BRIGHTNESS, Purpose.CONTRAST, Purpose.SATURATION)  # the numbers of the operations
        factors = torch.stack([(1 + self.strength * (2 * host.uniform(kind) - 1)).clamp(min=0) for kind in kinds], 1)
        return factors, _ORDERS[host.integers(Purpose.JITTER_ORDER, 0, len(_ORDERS) - 1)]

    def __call__(self, pixels: Tensor, plan: StagePlan, given: StageContext) -> Tensor:
        factors, orders = plan
        return jitter(pixels, factors, orders)


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
