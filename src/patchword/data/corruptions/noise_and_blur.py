"""Noise (gaussian, shot, impulse) and blur (defocus, glass, motion, zoom). Pixels are floats from 0 to 1."""

import math

import torch
from torch import Tensor

from patchword.data.corruptions.random_fields import RandomFields
from patchword.data.corruptions.warp import along, convolved, disk, gaussian, moved

_FEW = 20.0  # photons; above, the Poisson distribution is approximated by a normal one
_TERMS = 48


def gaussian_noise(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Gaussian noise. strength: standard deviation."""
    return pixels + strength * random.normal(0, *pixels.shape[1:])


def shot_noise(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Poisson noise. strength: standard deviation of a white pixel, 1 / sqrt(photons)."""
    photons = strength**-2
    mean = pixels * photons
    many = (mean + mean.sqrt() * random.normal(0, *pixels.shape[1:])).round().clamp(min=0)
    level, term = random.uniform(1, *pixels.shape[1:]), torch.exp(-mean.clamp(max=_FEW))
    few, below = torch.zeros_like(mean), term.clone()
    for number in range(1, _TERMS):  # inverse of the cumulative distribution
        few += level >= below
        term = term * mean.clamp(max=_FEW) / number
        below = below + term
    return torch.where(mean > _FEW, many, few) / photons


def impulse_noise(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Salt-and-pepper noise. strength: fraction of the values that become black or white."""
    struck, white = random.uniform(0, *pixels.shape[1:]) < strength, random.uniform(1, *pixels.shape[1:]) < 0.5
    return torch.where(struck, white.to(pixels.dtype), pixels)


def defocus_blur(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Blur with a disk kernel. strength: radius in pixels."""
    return convolved(pixels, disk(strength))


def glass_blur(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Frosted glass: every pixel is read from a random position nearby. strength: maximum distance in pixels."""
    height, width = pixels.shape[2:]
    down, right = ((2 * random.uniform(part, height, width) - 1) * strength for part in (0, 1))
    return gaussian(moved(gaussian(pixels, 0.3 + 0.15 * strength), down, right), 0.3 + 0.05 * strength)


def motion_blur(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Motion blur at up to 45 degrees from the horizontal. strength: length of the motion in pixels."""
    return along(pixels, (random.uniform(0) - 0.5) * math.pi / 2, strength)


def zoom_blur(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Zoom blur: the mean of the image at growing zoom factors. strength: maximum zoom minus 1."""
    height, width = pixels.shape[2:]
    row = (torch.arange(height, device=pixels.device) + 0.5 - height / 2).view(1, -1, 1)
    column = (torch.arange(width, device=pixels.device) + 0.5 - width / 2).view(1, 1, -1)
    steps = 12
    total = torch.zeros_like(pixels)
    for step in range(steps):
        change = 1 / (1 + strength * step / (steps - 1)) - 1
        total += moved(pixels, row * change, column * change)
    return total / steps
