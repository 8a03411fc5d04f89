"""Pixels and attention maps as small embedded PNG images."""

import io

import numpy as np
import torch
from matplotlib import colormaps
from PIL import Image
from torch import Tensor

from patchword.data.image.png import MOST, png_bytes
from patchword.reports.plots.page import embedded
from patchword.reports.plots.shading import light_grey, shaded

SMALL = 64  # smaller images are drawn with pixels as squares, as the model gets them


def address(pixels: Tensor) -> str:
    """Return (channels, height, width) uint8 as a PNG."""
    return embedded("png", png_bytes(pixels, MOST))


def heat(weights: Tensor) -> str:
    """Return (rows, columns) as colours from 0 to the largest, one pixel per patch.

    The colour follows the square root of the weight: one patch often has most of it, and the others would be black.
    """
    relative = weights.double().cpu() / weights.max().clamp(min=1e-12).cpu()
    return _png(Image.fromarray(_colours(relative.sqrt().numpy())))


def overlay(pixels: Tensor, weights: Tensor) -> str:
    """Draw (rows, columns) as colours, from the smallest to the largest, over the image in light grey."""
    image = _image(pixels)
    times = 1 if min(image.size) >= SMALL else 4
    size = (times * image.width, times * image.height)
    grey = torch.from_numpy(np.array(image.convert("L").resize(size, Image.Resampling.NEAREST)))
    low, high = weights.min(), weights.max()
    relative = ((weights - low) / (high - low).clamp(min=1e-12)).float().cpu().numpy()
    smooth = np.asarray(Image.fromarray(relative).resize(size, Image.Resampling.BICUBIC)).clip(0, 1)
    colours = (255 * shaded(light_grey(grey[None]), smooth)).round().astype(np.uint8)
    return _png(Image.fromarray(colours))


def kind(pixels: Tensor) -> str:
    """Return the CSS class for the scaling of an image."""
    return "pixels" if min(pixels.shape[-2:]) < SMALL else "photograph"


def _image(pixels: Tensor) -> Image.Image:
    plain = pixels.to("cpu", torch.uint8)
    image = Image.fromarray(plain[0].numpy() if len(plain) == 1 else plain.permute(1, 2, 0).contiguous().numpy())
    image.thumbnail((MOST, MOST))
    return image


def _colours(relative: np.ndarray) -> np.ndarray:
    coloured: np.ndarray = colormaps["viridis"](relative, bytes=True)[..., :3]
    return np.ascontiguousarray(coloured)


def _png(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return embedded("png", buffer.getvalue())
