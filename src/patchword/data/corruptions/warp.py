"""Moving pixels: sampling at other places, and blurs that are means over places."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def moved(pixels: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Each pixel is read so many pixels further down and right; both broadcast to (batch, height, width).

    Between pixels linear; beyond the border its mirror image.
    """
    batch, _, height, width = pixels.shape
    row = torch.arange(height, device=pixels.device, dtype=torch.float32).view(1, -1, 1) + down
    column = torch.arange(width, device=pixels.device, dtype=torch.float32).view(1, 1, -1) + right
    places = [(2 * place + 1) / side - 1 for place, side in ((column, width), (row, height))]
    grid = torch.stack([place.expand(batch, height, width) for place in places], dim=-1)
    return F.grid_sample(pixels, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def along(pixels: Tensor, angle: Tensor, length: float) -> Tensor:
    """The mean over a line of this length through each pixel; angle: (batch,) from the horizontal."""
    steps = min(33, 2 * math.ceil(length) + 1)
    down, right = (part.view(-1, 1, 1) for part in (angle.sin(), angle.cos()))
    total = torch.zeros_like(pixels)
    for step in range(steps):
        far = length * (step / (steps - 1) - 0.5)
        total += moved(pixels, far * down, far * right)
    return total / steps


def convolved(pixels: Tensor, kernel: Tensor) -> Tensor:
    """(batch, channels, height, width) with one kernel (odd, odd) for every channel; the border is repeated"""
    high, wide = (side // 2 for side in kernel.shape)
    channels = pixels.shape[1]
    padded = F.pad(pixels, (wide, wide, high, high), mode="replicate")
    return F.conv2d(padded, kernel.to(pixels).expand(channels, 1, -1, -1), groups=channels)


def gaussian(pixels: Tensor, sigma: float) -> Tensor:
    """Blurred along the columns, then along the rows."""
    reach = max(1, math.ceil(3 * sigma))
    line = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / sigma) ** 2)
    line = line / line.sum()
    return convolved(convolved(pixels, line[:, None]), line[None])


def disk(radius: float) -> Tensor:
    """The kernel of a lens out of focus: a disk, its edge softened, so that radii below a pixel blur a little, too."""
    soft = min(0.3 + 0.25 * radius, 0.6)
    reach = math.ceil(radius + 2 * soft)
    fine = 9  # points a side within each pixel
    place = (torch.arange((2 * reach + 1) * fine) + 0.5) / fine - (reach + 0.5)
    far = torch.hypot(place[:, None], place[None])
    inside = torch.sigmoid((radius - far) / (0.5 * soft))
    kernel = F.avg_pool2d(inside[None, None], fine)[0, 0]
    return kernel / kernel.sum()
