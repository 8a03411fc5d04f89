"""Weather corruptions: snow, frost, fog, brightness. Pixels are floats from 0 to 1.

Frost needs no photographs: its crystals are computed, six-armed stars that grow from the borders.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.data.corruptions.random_fields import RandomFields
from patchword.data.corruptions.warp import along

_STARS = 14  # crystals per image


def snow(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Slanted snowflakes over a paler image. strength: from 0, none, to 1, a storm."""
    height, width = pixels.shape[2:]
    flake = max(1, min(height, width) // 48)  # pixels
    size = (-(-height // flake), -(-width // flake))
    flying = (random.uniform(0, 1, *size) - (1 - 0.22 * strength)).clamp(min=0) / (0.22 * strength)
    flakes = F.interpolate(flying, (height, width), mode="bilinear", align_corners=False)
    angle = (0.55 + 0.3 * random.uniform(1)) * math.pi
    streaks = along(flakes, angle, max(1.0, 3.0 * flake * (0.5 + strength)))
    grey = pixels.mean(1, keepdim=True)
    pale = torch.maximum(pixels, 0.45 * strength + (1 - 0.45 * strength) * grey)
    return pale + (0.6 + 1.6 * strength) * streaks


def frost(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Ice crystals over a slightly darkened image. strength: brightness of the ice."""
    ice = _crystals(random, *pixels.shape[2:])
    return (1 - 0.45 * strength) * pixels + strength * ice


def _crystals(random: RandomFields, height: int, width: int) -> Tensor:
    """Return (batch, 1, height, width) in [0, 1], the ice."""
    side = max(height, width)
    device = random.index.device
    row = ((torch.arange(height, device=device) + 0.5) / side).view(1, -1, 1)
    column = ((torch.arange(width, device=device) + 0.5) / side).view(1, 1, -1)
    rim = torch.minimum(torch.minimum(row, height / side - row), torch.minimum(column, width / side - column))
    ice = (0.15 + 0.6 * random.plasma(40, height, width)[:, 0]) * (1 - 2.4 * rim).clamp(min=0)
    draws = random.uniform(0, 5, _STARS)
    for star in range(_STARS):
        top, left, turn, reach, edge = (draws[:, part, star].view(-1, 1, 1) for part in range(5))
        # half of the stars are on a border, where ice begins
        left = left if star % 2 else torch.where(edge < 0.5, 0.0, width / side) + 0 * left
        down, right = row - top * height / side, column - left * (width / side if star % 2 else 1)
        far, angle = torch.hypot(down, right), torch.atan2(down, right)
        length = 0.12 + 0.3 * reach
        needle = (3 * (angle - 2 * math.pi * turn)).cos().abs()  # six directions
        feather = 0.55 + 0.45 * (60 * far / (0.4 + reach) + 4 * needle).sin()
        arm = needle ** (6 + 60 * far / length)
        ice = ice + (1 - far / length).clamp(min=0) * (0.22 * needle**3 + 1.1 * arm) * feather
    return ice.clamp(0, 1)[:, None]


def fog(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Add fractal clouds, then rescale to the image's original maximum. strength: of the clouds."""
    height, width = pixels.shape[2:]
    brightest = pixels.amax((1, 2, 3), keepdim=True).clamp(min=0.05)
    return (pixels + strength * random.plasma(0, height, width)) * brightest / (brightest + strength)


def brightness(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Increase brightness. strength: added to the value (largest channel); hue and saturation stay."""
    value = pixels.amax(1, keepdim=True)
    lighter = (value + strength).clamp(max=1)
    return torch.where(value > 1e-3, pixels * lighter / value.clamp(min=1e-3), lighter)
