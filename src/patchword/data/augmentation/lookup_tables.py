"""Point operations, which map each pixel value independently, as lookup tables of 256 values.

Each function returns the tables of a batch, (batch, 1 or channels, 256) uint8; `look_up` applies them to pixels.
The arithmetic uses 8 bits with truncation, so results equal Pillow's.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def look_up(pixels: Tensor, tables: Tensor) -> Tensor:
    """Replace each pixel of (batch, channels, height, width) uint8 by its table entry."""
    wide = tables.expand(-1, pixels.shape[1], -1)
    return wide.gather(2, pixels.flatten(2).long()).view_as(pixels)


def with_table(table: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the image operation of a table function of this module."""
    return lambda pixels, amount: look_up(pixels, table(pixels, amount))


def blended(first: Tensor, second: Tensor, fraction: Tensor) -> Tensor:
    """Return first + fraction * (second - first), clamped to 8 bits; a fraction above 1 extrapolates."""
    first, second = first.float(), second.float()
    return (first + fraction * (second - first)).clamp_(0, 255).to(torch.uint8)


def grey(pixels: Tensor) -> Tensor:
    """Return (batch, 1, height, width) uint8, the luminance by ITU-R 601-2 in integer arithmetic."""
    if pixels.shape[1] == 1:
        return pixels
    red, green, blue = pixels.int().unbind(1)
    return ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16).to(torch.uint8)[:, None]


def exact_grey(values: Tensor) -> Tensor:
    """`grey` of float32 pixels, which stays float32: its integers are below 2^24 and therefore exact."""
    if values.shape[1] == 1:
        return values
    red, green, blue = values.split(1, dim=1)
    scaled: Tensor = (red * 19595).add_(green, alpha=38470).add_(blue, alpha=7471)
    return scaled.add_(0x8000).mul_(1 / 0x10000).floor_()


def histograms(pixels: Tensor) -> Tensor:
    """Return the histogram of each channel, (batch, channels, 256) int64."""
    values = pixels.flatten(2).long()
    counts = torch.zeros(*values.shape[:2], 256, dtype=torch.int64, device=pixels.device)
    return counts.scatter_add_(2, values, torch.ones_like(values))


def brightness(pixels: Tensor, factor: Tensor) -> Tensor:
    """Change brightness: factors below 1 blend towards black, above 1 away from it."""
    values = _values(pixels)
    return blended(torch.zeros_like(values), values, _factor(factor))


def contrast(pixels: Tensor, factor: Tensor) -> Tensor:
    """Change contrast: factors below 1 blend towards the image's mean grey, above 1 away from it."""
    bright = grey(pixels).flatten(1)
    mean = (2 * bright.sum(1, dtype=torch.int64) + bright.shape[1]) // (2 * bright.shape[1])  # rounded
    return blended(mean.view(-1, 1, 1), _values(pixels), _factor(factor))


def invert(pixels: Tensor, amount: Tensor) -> Tensor:
    """Invert: 255 minus the value."""
    return (255 - _values(pixels)).to(torch.uint8).expand(len(pixels), -1, -1)


def solarize(pixels: Tensor, threshold: Tensor) -> Tensor:
    """Invert values at or above the threshold."""
    values = _values(pixels)
    return torch.where(values < _factor(threshold), values, 255 - values).to(torch.uint8)


def solarize_add(pixels: Tensor, amount: Tensor) -> Tensor:
    """Add an amount to values below 128."""
    values = _values(pixels)
    brighter = (values + _factor(amount)).clamp(max=255)
    return torch.where(values < 128, brighter, values).to(torch.uint8)


def posterize(pixels: Tensor, bits: Tensor) -> Tensor:
    """Keep only the highest bits of each value."""
    step = (2 ** (8 - _factor(bits))).int()
    return (_values(pixels) // step * step).to(torch.uint8)


def autocontrast(pixels: Tensor, amount: Tensor) -> Tensor:
    """Stretch each channel so that its minimum and maximum become 0 and 255."""
    used, values = histograms(pixels) > 0, _values(pixels)
    low = used.int().argmax(2, keepdim=True)
    high = 255 - used.flip(2).int().argmax(2, keepdim=True)
    span = _exact(high - low)
    scale = torch.full_like(span, 255) / span  # scalar / tensor would round twice
    stretched = (values * scale - low * scale).clamp(0, 255).int()
    return torch.where(high > low, stretched, values).to(torch.uint8)


def equalize(pixels: Tensor, amount: Tensor) -> Tensor:
    """Equalise the histogram of each channel: the cumulative histogram is the table."""
    counts = histograms(pixels)
    last = 255 - (counts > 0).flip(2).int().argmax(2, keepdim=True)
    step = (counts.sum(2, keepdim=True) - counts.gather(2, last)) // 255
    below = counts.cumsum(2) - counts + step // 2
    spread = (below // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, spread, _values(pixels)).to(torch.uint8)


def _values(pixels: Tensor) -> Tensor:
    return torch.arange(256, dtype=torch.int32, device=pixels.device).view(1, 1, 256)


def _factor(amount: Tensor) -> Tensor:
    return amount.view(-1, 1, 1)


def _exact(counts: Tensor) -> Tensor:
    return counts.float() if counts.device.type == "mps" else counts.double()  # MPS has no float64
