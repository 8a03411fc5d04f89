"""Warping by grid sampling, and blurs: line, Gaussian and disk."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def moved(pixels: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Read each pixel at an offset of (down, right) pixels; both broadcast to (batch, height, width).

    Bilinear; the image is reflected at its border.
    """
    batch, _, height, width = pixels.shape
    row = torch.arange(height, device=pixels.device, dtype=torch.float32).view(1, -1, 1) + down
    column = torch.arange(width, device=pixels.device, dtype=torch.float32).view(1, 1, -1) + right
    places = [(2 * place + 1) / side - 1 for place, side in ((column, width), (row, height))]
    grid = torch.stack([place.expand(batch, height, width) for place in places], dim=-1)
    return F.grid_sample(pixels, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def along(pixels: Tensor, angle: Tensor, length: float) -> Tensor:
    """Return the mean over a line of this length through each pixel. angle: (batch,) from the horizontal."""
    steps = min(33, 2 * math.ceil(length) + 1)
    down, right = (part.view(-1, 1, 1) for part in (angle.sin(), angle.cos()))
    total = torch.zeros_like(pixels)
    for step in range(steps):
        far = length * (step / (steps - 1) - 0.5)
        total += moved(pixels, far * down, far * right)
    return total / steps


def convolved(pixels: Tensor, kernel: Tensor) -> Tensor:
    """Convolve every channel with one kernel (odd, odd); the border is replicated."""
    high, wide = (side // 2 for side in kernel.shape)
    channels = pixels.shape[1]
    padded = F.pad(pixels, (wide, wide, high, high), mode="replicate")
    return F.conv2d(padded, kernel.to(pixels).expand(channels, 1, -1, -1), groups=channels)


def gaussian(pixels: Tensor, sigma: float) -> Tensor:
    """Gaussian blur along the columns, then along the rows."""
    reach = max(1, math.ceil(3 * sigma))
    line = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / sigma) ** 2)
    line = line / line.sum()
    return convolved(convolved(pixels, line[:, None]), line[None])


def disk(radius: float) -> Tensor:
    """Return a disk kernel with a soft edge, so that radii below one pixel blur a little, too."""
    soft = min(0.3 + 0.25 * radius, 0.6)
    reach = math.ceil(radius + 2 * soft)
    fine = 9  # sample points per side within each pixel
    place = (torch.arange((2 * reach + 1) * fine) + 0.5) / fine - (reach + 0.5)
    far = torch.hypot(place[:, None], place[None])
    inside = torch.sigmoid((radius - far) / (0.5 * soft))
    kernel = F.avg_pool2d(inside[None, None], fine)[0, 0]
    return kernel / kernel.sum()
