"""Pixels and attention maps as small PNG pictures."""

import io

import numpy as np
import torch
from matplotlib import colormaps
from PIL import Image
from torch import Tensor

from patchword.reports.plots.page import embedded

MOST = 128  # pixels a side; larger pictures are made smaller, so that a report of photographs stays a small file
SMALL = 64  # below this the page draws pixels as squares, which is what the model sees


def address(pixels: Tensor) -> str:
    """(channels, height, width) uint8 as a PNG"""
    return _png(_image(pixels))


def heat(weights: Tensor) -> str:
    """(rows, columns) from 0 to the largest as colours, a pixel a patch

    The colour follows the square root of the weight: one patch often has most of it, and the others would be black.
    """
    shares = weights.double().cpu() / weights.max().clamp(min=1e-12).cpu()
    return _png(Image.fromarray(_colours(shares.sqrt().numpy())))


def overlay(pixels: Tensor, weights: Tensor) -> str:
    """The picture in grey under the colours of (rows, columns), from the smallest to the largest"""
    picture = _image(pixels)
    times = 1 if min(picture.size) >= SMALL else 4
    size = (times * picture.width, times * picture.height)
    grey = picture.convert("L").resize(size, Image.Resampling.NEAREST).convert("RGB")
    low, high = weights.min(), weights.max()
    shares = ((weights - low) / (high - low).clamp(min=1e-12)).float().cpu().numpy()
    smooth = np.asarray(Image.fromarray(shares).resize(size, Image.Resampling.BICUBIC)).clip(0, 1)
    return _png(Image.blend(grey, Image.fromarray(_colours(smooth)), 0.55))


def kind(pixels: Tensor) -> str:
    """How the page should enlarge it."""
    return "pixels" if min(pixels.shape[-2:]) < SMALL else "photograph"


def _image(pixels: Tensor) -> Image.Image:
    plain = pixels.to("cpu", torch.uint8)
    image = Image.fromarray(plain[0].numpy() if len(plain) == 1 else plain.permute(1, 2, 0).contiguous().numpy())
    image.thumbnail((MOST, MOST))
    return image


def _colours(shares: np.ndarray) -> np.ndarray:
    coloured: np.ndarray = colormaps["viridis"](shares, bytes=True)[..., :3]
    return np.ascontiguousarray(coloured)


def _png(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return embedded("png", buffer.getvalue())
