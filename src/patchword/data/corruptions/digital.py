"""Digital corruptions: contrast, elastic, pixelate, jpeg. Pixels are floats from 0 to 1."""

import io
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from patchword.data.corruptions.random_fields import RandomFields
from patchword.data.corruptions.warp import moved


def contrast(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Reduce contrast. strength: fraction of the contrast that is removed."""
    mean = pixels.mean((2, 3), keepdim=True)
    return mean + (1 - strength) * (pixels - mean)


def elastic(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Elastic deformation. strength: maximum displacement as a fraction of the side."""
    height, width = pixels.shape[2:]
    fields = 0.6 * random.smooth(0, 6, height, width, 2) + 0.4 * random.smooth(1, 12, height, width, 2)
    far = (2 * fields - 1) * strength * min(height, width)
    return moved(pixels, far[:, 0], far[:, 1])


def pixelate(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """Replace blocks by their mean colour. strength: fraction of the resolution of each side that is lost."""
    rows, columns = (_blocks(side, strength).to(pixels) for side in pixels.shape[2:])
    return rows @ pixels @ columns.T


def _blocks(side: int, strength: float) -> Tensor:
    """Return (side, side), the matrix that replaces each pixel by the mean of its block."""
    count = max(1, round(side * (1 - strength)))
    block = ((torch.arange(side) + 0.5) * count / side).long()
    same = (block[:, None] == block).float()
    return same / same.sum(1, keepdim=True)


def jpeg(pixels: Tensor, strength: float, random: RandomFields) -> Tensor:
    """JPEG compression by Pillow. strength: 100 minus the quality."""
    quality = round(100 - strength)
    plain = (pixels.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        read = np.stack(list(pool.map(lambda image: _through(image, quality), plain)))
    return torch.from_numpy(read).to(pixels.device).permute(0, 3, 1, 2).float() / 255


def _through(image: np.ndarray, quality: int) -> np.ndarray:
    held = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(held, "JPEG", quality=quality)
    with Image.open(held) as opened:
        return np.asarray(opened).reshape(image.shape)
