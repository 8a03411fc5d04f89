"""Point operations: what happens to a pixel depends on its value alone, so a table of 256 values says it all.

A function answers the tables of a batch, (batch, 1 or channels, 256) uint8; `through` looks every pixel up.
The arithmetic is that of 8-bit pictures, truncation included, so that pictures equal Pillow's.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def look_up(pixels: Tensor, tables: Tensor) -> Tensor:
    """(batch, channels, height, width) uint8 -> the same"""
    wide = tables.expand(-1, pixels.shape[1], -1)
    return wide.gather(2, pixels.flatten(2).long()).view_as(pixels)


def looked_up(table: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The change of pictures that a function of this file makes."""
    return lambda pixels, amount: look_up(pixels, table(pixels, amount))


def blended(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """first + share * (second - first), cut to 8 bits: a share of 0 is the first, 1 the second, 2 beyond it"""
    first, second = first.float(), second.float()
    return (first + share * (second - first)).clamp_(0, 255).to(torch.uint8)


def grey(pixels: Tensor) -> Tensor:
    """(batch, 1, height, width) uint8: luminance by ITU-R 601-2, in whole numbers"""
    if pixels.shape[1] == 1:
        return pixels
    red, green, blue = pixels.int().unbind(1)
    return ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16).to(torch.uint8)[:, None]


def histograms(pixels: Tensor) -> Tensor:
    """(batch, channels, 256) int64"""
    values = pixels.flatten(2).long()
    counts = torch.zeros(*values.shape[:2], 256, dtype=torch.int64, device=pixels.device)
    return counts.scatter_add_(2, values, torch.ones_like(values))


def brightness(pixels: Tensor, factor: Tensor) -> Tensor:
    """towards black below 1, away from it above"""
    values = _values(pixels)
    return blended(torch.zeros_like(values), values, _factor(factor))


def contrast(pixels: Tensor, factor: Tensor) -> Tensor:
    """towards the picture's mean grey below 1, away from it above"""
    bright = grey(pixels).flatten(1)
    mean = (2 * bright.sum(1, dtype=torch.int64) + bright.shape[1]) // (2 * bright.shape[1])  # rounded
    return blended(mean.view(-1, 1, 1), _values(pixels), _factor(factor))


def invert(pixels: Tensor, amount: Tensor) -> Tensor:
    """255 less the value"""
    return (255 - _values(pixels)).to(torch.uint8).expand(len(pixels), -1, -1)


def solarize(pixels: Tensor, threshold: Tensor) -> Tensor:
    """values from the threshold on inverted"""
    values = _values(pixels)
    return torch.where(values < _factor(threshold), values, 255 - values).to(torch.uint8)


def solarize_add(pixels: Tensor, amount: Tensor) -> Tensor:
    """the dark half made brighter"""
    values = _values(pixels)
    brighter = (values + _factor(amount)).clamp(max=255)
    return torch.where(values < 128, brighter, values).to(torch.uint8)


def posterize(pixels: Tensor, bits: Tensor) -> Tensor:
    """only the highest bits of a value kept"""
    step = (2 ** (8 - _factor(bits))).int()
    return (_values(pixels) // step * step).to(torch.uint8)


def autocontrast(pixels: Tensor, amount: Tensor) -> Tensor:
    """each channel stretched from its darkest and brightest value to 0 and 255"""
    used, values = histograms(pixels) > 0, _values(pixels)
    low = used.int().argmax(2, keepdim=True)
    high = 255 - used.flip(2).int().argmax(2, keepdim=True)
    span = _exact(high - low)
    scale = torch.full_like(span, 255) / span  # a number over a tensor would be rounded twice
    stretched = (values * scale - low * scale).clamp(0, 255).int()
    return torch.where(high > low, stretched, values).to(torch.uint8)


def equalize(pixels: Tensor, amount: Tensor) -> Tensor:
    """each channel's values spread so that each is about as frequent: the cumulative histogram is the table"""
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
    return counts.float() if counts.device.type == "mps" else counts.double()  # Apple's GPUs have no doubles
