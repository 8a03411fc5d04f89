"""Geometric operations: affine maps by grid sampling, crops and resizing by two matrix products."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.device import to_device


def moved(pixels: Tensor, matrices: Tensor, colour: Sequence[float] = (0.5,)) -> Tensor:
    """Apply an affine map per image, (batch, 2, 3): from a position (x, y) of the output, in pixels from the upper left
    corner, to a position of the input. Bilinear; outside of the input is `colour` (0 to 1)."""
    height, width = pixels.shape[-2:]
    y = torch.arange(height, device=pixels.device).view(-1, 1) + 0.5
    x = torch.arange(width, device=pixels.device).view(1, -1) + 0.5
    rows = to_device(matrices.float(), pixels.device)[..., None, None]
    there = rows[:, :, 0] * x + rows[:, :, 1] * y + rows[:, :, 2]  # (batch, 2, height, width)
    sides = to_device(torch.tensor([width, height]).view(2, 1, 1), pixels.device)
    outside = ((there < 0) | (there >= sides)).any(1, keepdim=True)
    places = (there * 2 / sides - 1).permute(0, 2, 3, 1)
    found = F.grid_sample(pixels.float(), places, mode="bilinear", padding_mode="border", align_corners=False)
    paint = to_device(torch.tensor(colour).mul(255).round().view(1, -1, 1, 1), pixels.device)
    return torch.where(outside, paint, found.round_()).to(torch.uint8)


def rotation(degrees: Tensor, height: int, width: int) -> Tensor:
    """Return matrices of counterclockwise rotations about the centre."""
    angle = degrees.double() * (math.pi / 180)
    cos, sin, x, y = angle.cos(), angle.sin(), width / 2, height / 2
    return _matrices(cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y)


def shear_x(amount: Tensor, height: int, width: int) -> Tensor:
    """Return matrices that move rows to the left by `amount` times their distance from the upper border."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _matrices(one, amount, zero, zero, one, zero)


def shear_y(amount: Tensor, height: int, width: int) -> Tensor:
    """Return matrices that move columns up by `amount` times their distance from the left border."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _matrices(one, zero, zero, amount, one, zero)


def translation_x(fraction: Tensor, height: int, width: int) -> Tensor:
    """Return matrices of translations to the left by a fraction of the width."""
    one, zero = torch.ones_like(fraction), torch.zeros_like(fraction)
    return _matrices(one, zero, fraction * width, zero, one, zero)


def translation_y(fraction: Tensor, height: int, width: int) -> Tensor:
    """Return matrices of translations upwards by a fraction of the height."""
    one, zero = torch.ones_like(fraction), torch.zeros_like(fraction)
    return _matrices(one, zero, zero, zero, one, fraction * height)


def _matrices(*entries: Tensor) -> Tensor:
    return torch.stack([entry.double() for entry in entries], dim=1).view(-1, 2, 3)


def resampled(pixels: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return rows x image x columns^T, each (batch, side, side), rounded to 8 bits after each product as in Pillow."""
    batch, channels, height, width = pixels.shape
    wide = pixels.float().view(batch, channels * height, width).bmm(columns.transpose(1, 2).contiguous())
    flat = wide.round_().clamp_(0, 255).view(batch, channels, height, -1)
    return torch.matmul(rows[:, None], flat).round_().clamp_(0, 255).to(torch.uint8)


def bicubic(first: Tensor, length: Tensor, side: int) -> Tensor:
    """Return (batch, side, side) matrices that resize the `length` pixels from `first` to `side` pixels.

    Keys' bicubic kernel with a = -1/2, over the pixels of the part alone, which is never larger than the side.
    """
    scale = length.view(-1, 1, 1).float() / side
    start = first.view(-1, 1, 1)
    place = torch.arange(side, dtype=torch.float32, device=first.device)
    middle = start + (place.view(1, -1, 1) + 0.5) * scale
    distance = (place.view(1, 1, -1) + 0.5 - middle).abs()
    near = (1.5 * distance - 2.5) * distance.square() + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    weights = torch.where(distance < 1, near, torch.where(distance < 2, far, 0.0))
    inside = (place >= start) & (place < start + length.view(-1, 1, 1))
    weights = weights * inside
    return weights / weights.sum(2, keepdim=True)
