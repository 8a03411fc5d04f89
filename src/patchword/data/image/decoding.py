"""Decode many images in parallel; unreadable images are reported by name, and the others are still read."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.faults import is_collecting
from patchword.data.image.image_file import ALLOWING, convert_image, decode_image, read_header, read_image, warn_image
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.near_duplicates import Thumbnails
from patchword.data.progress import Progress
from patchword.data.skipping import FaultySamples

_AT_ONCE = 256
_METHODS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
TOO_LARGE = "an image with too many pixels"
UNREADABLE = "an image that cannot be read"
LabelledFile = tuple[Path, str]  # an image file and its class
Found = TypeVar("Found")


def decode(path: Path, format: ImageFormat, thumbnails: Thumbnails | None = None) -> Tensor:
    """Decode an image file to (channels, height, width) uint8: upright, and resized as the format describes."""
    image = read_image(path, _checked(format.channels))
    if thumbnails is not None:
        thumbnails.add(path, image)
    return _resized(image, format)


def decode_bytes(data: bytes, path: Path, format: ImageFormat) -> Tensor:
    """Decode the bytes of an image file like `decode`."""
    return _resized(decode_image(data, path, _checked(format.channels)), format)


def convert(image: Image.Image, format: ImageFormat) -> Tensor:
    """Convert an open image like `decode`."""
    return _resized(convert_image(image, _checked(format.channels)), format)


def _checked(channels: int) -> int:
    if channels not in (1, 3):
        raise UserError("images have 1 or 3 channels", got=f"a model with {channels}", hint="set model.channels=3")
    return channels


def _resized(image: Image.Image, format: ImageFormat) -> Tensor:
    (height, width), resize = format.sides, format.resize
    method = _METHODS[resize.interpolation]
    if resize.mode == "fit":
        image = ImageOps.fit(image, (width, height), method)
    else:
        image = _centre(image.resize(_scaled(image, format), method), width, height)
    array = np.asarray(image)
    return torch.from_numpy(array.reshape(height, width, format.channels).copy()).permute(2, 0, 1)


def _scaled(image: Image.Image, format: ImageFormat) -> tuple[int, int]:
    """Return width and height before the centre is cut out, rounded down as in timm and transformers."""
    height, width = (int(side / format.resize.crop + 1e-6) for side in format.sides)
    if format.resize.mode == "stretch":
        return width, height
    factor = max(height / image.height, width / image.width)
    if height / image.height == factor:
        return max(width, int(height * image.width / image.height)), height
    return width, max(height, int(width * image.height / image.width))


def _centre(image: Image.Image, width: int, height: int) -> Image.Image:
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def check_images(
    files: Sequence[LabelledFile],
    faulty: FaultySamples,
    progress: Progress | None = None,
    whole: bool = True,
    thumbnails: Thumbnails | None = None,
) -> list[bool]:
    """Read every image; return which ones are readable. whole: decode all pixels, not only the header."""

    def read(path: Path) -> object:
        if not whole:
            return read_header(path)
        image = read_image(path, 3)
        if thumbnails is not None:
            thumbnails.add(path, image)
        return path

    return [found is not None for found in map_images(files, read, faulty, progress)]


def map_images(
    files: Sequence[LabelledFile],
    work: Callable[[Path], Found],
    faulty: FaultySamples,
    progress: Progress | None,
    kind: str = UNREADABLE,
) -> Iterator[Found | None]:
    """Yield the result of `work` for each image, computed in parallel; a failure is a faulty sample and yields None.

    kind: the kind of fault under which failures are reported.
    """

    def tried(path: Path) -> Found | UserError:
        try:
            return work(path)
        except UserError as error:
            return error

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for start in range(0, len(files), _AT_ONCE):
            some = files[start : start + _AT_ONCE]
            for (path, label), found in zip(some, pool.map(tried, (path for path, _ in some)), strict=True):
                if isinstance(found, UserError):
                    faulty.add(found, TOO_LARGE if ALLOWING in found.hint else kind, label)
                elif is_collecting():
                    warn_image(path)
                yield None if isinstance(found, UserError) else found
            if progress:
                progress(start + len(some), len(files))
    faulty.finish(label for _, label in files)
