"""The corruptions and their strengths.

The types are those of ImageNet-C; the code, the random numbers and the strengths are our own, so results are comparable
with each other but not exactly with published ones. Strengths are given for sides of 32 and 224 pixels, since a blur of
three pixels is weak in a photograph and strong in a thumbnail; between the two they are interpolated by the logarithm
of the side.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.core.errors import UserError, nearest
from patchword.data.corruptions import digital, noise_and_blur, weather
from patchword.data.corruptions.random_fields import RandomFields

SEVERITIES = (1, 2, 3, 4, 5)
_SMALL, _LARGE = 32, 224
Strengths = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class Corruption:
    """A type of corruption. small, large: its five strengths at sides of 32 and 224 pixels."""

    change: Callable[[Tensor, float, RandomFields], Tensor]
    small: Strengths
    large: Strengths

    def strength(self, severity: int, side: int) -> float:
        fraction = math.log(side / _SMALL) / math.log(_LARGE / _SMALL)
        fraction = min(1.0, max(0.0, fraction))
        low, high = self.small[severity - 1], self.large[severity - 1]
        return math.exp((1 - fraction) * math.log(low) + fraction * math.log(high))


_ZOOM: Strengths = (0.10, 0.15, 0.20, 0.26, 0.33)
CORRUPTIONS: dict[str, Corruption] = {
    "gaussian": Corruption(
        noise_and_blur.gaussian_noise, (0.04, 0.06, 0.08, 0.11, 0.15), (0.08, 0.12, 0.18, 0.26, 0.38)
    ),
    "shot": Corruption(noise_and_blur.shot_noise, (0.05, 0.07, 0.1, 0.13, 0.17), (0.13, 0.2, 0.29, 0.42, 0.56)),
    "impulse": Corruption(noise_and_blur.impulse_noise, (0.01, 0.02, 0.035, 0.06, 0.1), (0.03, 0.06, 0.1, 0.17, 0.27)),
    "defocus": Corruption(noise_and_blur.defocus_blur, (0.4, 0.6, 0.9, 1.2, 1.6), (3, 4, 6, 8, 10)),
    "glass": Corruption(noise_and_blur.glass_blur, (0.5, 0.7, 1.0, 1.4, 1.9), (1.5, 2.2, 3.2, 4.5, 6)),
    "motion": Corruption(noise_and_blur.motion_blur, (1.6, 2.3, 3.1, 4.2, 5.6), (12, 18, 24, 32, 42)),
    "zoom": Corruption(noise_and_blur.zoom_blur, _ZOOM, _ZOOM),
    "snow": Corruption(weather.snow, (0.1, 0.18, 0.28, 0.4, 0.55), (0.14, 0.22, 0.32, 0.44, 0.58)),
    "frost": Corruption(weather.frost, (0.25, 0.38, 0.5, 0.62, 0.75), (0.4, 0.55, 0.7, 0.8, 0.9)),
    "fog": Corruption(weather.fog, (0.35, 0.6, 0.9, 1.3, 1.9), (1, 1.5, 2, 2.5, 3.2)),
    "brightness": Corruption(weather.brightness, (0.07, 0.13, 0.2, 0.28, 0.38), (0.1, 0.2, 0.3, 0.4, 0.5)),
    "contrast": Corruption(digital.contrast, (0.3, 0.5, 0.62, 0.74, 0.86), (0.6, 0.7, 0.8, 0.9, 0.95)),
    "elastic": Corruption(digital.elastic, (0.03, 0.045, 0.06, 0.08, 0.105), (0.02, 0.03, 0.045, 0.065, 0.09)),
    "pixelate": Corruption(digital.pixelate, (0.12, 0.25, 0.37, 0.5, 0.62), (0.4, 0.55, 0.67, 0.77, 0.84)),
    "jpeg": Corruption(digital.jpeg, (30, 45, 58, 70, 80), (75, 82, 86, 90, 93)),
}
GROUPS = {
    "noise": ("gaussian", "shot", "impulse"),
    "blur": ("defocus", "glass", "motion", "zoom"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic", "pixelate", "jpeg"),
}


def corrupt(pixels: Tensor, kind: str, severity: int, seed: int, index: Tensor) -> Tensor:
    """Corrupt (batch, 1 or 3 channels, height, width) uint8 images, on their device.

    severity: 1 to 5. index: (batch,) indices of the samples in the data set; with the seed they determine all
    randomness.
    """
    if kind not in CORRUPTIONS:
        raise UserError(f"unknown corruption {kind!r}", hint=nearest(kind, CORRUPTIONS))
    if severity not in SEVERITIES:
        raise UserError("invalid severity of a corruption", expected="1 to 5", got=severity)
    chosen = CORRUPTIONS[kind]
    random = RandomFields(seed, list(CORRUPTIONS).index(kind), index.to(pixels.device))
    strength = chosen.strength(severity, min(pixels.shape[2:]))
    changed = chosen.change(pixels.float() / 255, strength, random)
    return (changed.clamp(0, 1) * 255).round().to(torch.uint8)
