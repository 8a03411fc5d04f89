"""Where the pixels of a picture come from: affine maps by one grid of places, crops by two matrices."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.to_device import to_device


def moved(pixels: Tensor, matrices: Tensor, colour: Sequence[float] = (0.5,)) -> Tensor:
    """Each picture through its own affine map, (batch, 2, 3): from a place (x, y) in the new picture, in pixels from
    the upper left corner, to the place in the old one that it shows. Bilinear; outside there is `colour` (0 to 1)."""
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
    """counterclockwise, about the middle"""
    angle = degrees.double() * (math.pi / 180)
    cos, sin, x, y = angle.cos(), angle.sin(), width / 2, height / 2
    return _matrices(cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y)


def shear_x(amount: Tensor, height: int, width: int) -> Tensor:
    """rows moved to the left by `amount` times their distance from the upper border"""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _matrices(one, amount, zero, zero, one, zero)


def shear_y(amount: Tensor, height: int, width: int) -> Tensor:
    """columns moved up by `amount` times their distance from the left border"""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _matrices(one, zero, zero, amount, one, zero)


def translation_x(share: Tensor, height: int, width: int) -> Tensor:
    """to the left by a share of the width"""
    one, zero = torch.ones_like(share), torch.zeros_like(share)
    return _matrices(one, zero, share * width, zero, one, zero)


def translation_y(share: Tensor, height: int, width: int) -> Tensor:
    """up by a share of the height"""
    one, zero = torch.ones_like(share), torch.zeros_like(share)
    return _matrices(one, zero, zero, zero, one, share * height)


def _matrices(*entries: Tensor) -> Tensor:
    return torch.stack([entry.double() for entry in entries], dim=1).view(-1, 2, 3)


def resampled(pixels: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """rows x picture x columns^T, (batch, side, side) each, with 8 bits after each product, as Pillow resizes"""
    batch, channels, height, width = pixels.shape
    wide = pixels.float().view(batch, channels * height, width).bmm(columns.transpose(1, 2).contiguous())
    flat = wide.round_().clamp_(0, 255).view(batch, channels, height, -1)
    return torch.matmul(rows[:, None], flat).round_().clamp_(0, 255).to(torch.uint8)


def bicubic(first: Tensor, length: Tensor, side: int) -> Tensor:
    """(batch, side, side): the matrix that brings the pixels from `first` on, `length` of them, to `side` pixels

    Keys' kernel with a = -1/2, over pixels of the part alone, which is never larger than the side.
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
