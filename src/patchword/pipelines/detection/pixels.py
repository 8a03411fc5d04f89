"""The pixels of an image that a user gives, in its own size."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.image.image_file import convert_image, read_image
from patchword.pipelines.image_inputs import OneImage


def upright_image(given: OneImage, channels: int = 3) -> Image.Image:
    """Return an image as a viewer shows it, grey or RGB."""
    if isinstance(given, Path):
        return read_image(given, channels)
    if isinstance(given, Image.Image):
        return convert_image(given, channels)
    array = _array(given) if isinstance(given, Tensor) else given
    grey = array.ndim == 3 and array.shape[2] == 1
    return convert_image(Image.fromarray(array[..., 0] if grey else np.ascontiguousarray(array)), channels)


def image_pixels(given: OneImage, channels: int = 3) -> Tensor:
    """Return uint8 pixels (channels, height, width)."""
    array = np.array(upright_image(given, channels))
    return torch.from_numpy(array.reshape(*array.shape[:2], channels)).permute(2, 0, 1).contiguous()


def read_pixels(images: Sequence[OneImage], channels: int, batch_size: int) -> Iterator[list[Tensor | UserError]]:
    """Yield the pixels of some images at a time, read by threads, or why an image cannot be read."""

    def tried(image: OneImage) -> Tensor | UserError:
        try:
            return image_pixels(image, channels)
        except UserError as error:
            return error

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for start in range(0, len(images), batch_size):
            yield list(pool.map(tried, images[start : start + batch_size]))


def _array(given: Tensor) -> np.ndarray:
    if given.dtype != torch.uint8 or given.ndim != 3 or len(given) not in (1, 3, 4):
        raise UserError(
            "this tensor is not an image",
            expected="uint8 pixels (channels, height, width) with 1, 3 or 4 channels",
            got=f"{str(given.dtype).removeprefix('torch.')} of shape {tuple(given.shape)}",
            hint="a detector resizes and normalizes pixels itself",
        )
    pixels: np.ndarray = given.permute(1, 2, 0).cpu().numpy()
    return pixels
