"""Many pictures, some at once: a picture that cannot be read is named, and the others are read all the same."""

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
from patchword.core.grid import Size, sides
from patchword.data.faults import is_collecting, tell
from patchword.data.image.image_file import ALLOWING, decode_image, read_header, read_image, warn_image
from patchword.data.progress import Progress

_AT_ONCE = 256
TOO_LARGE = "a picture with more pixels than are allowed"
Found = TypeVar("Found")


def decode(path: Path, size: Size, channels: int) -> Tensor:
    """One picture as (channels, height, width) uint8: upright, shorter side resized, middle cut out."""
    return _cut_out(read_image(path, _checked(channels)), size, channels)


def decode_bytes(data: bytes, path: Path, size: Size, channels: int) -> Tensor:
    """The same, of the bytes of a file."""
    return _cut_out(decode_image(data, path, _checked(channels)), size, channels)


def _checked(channels: int) -> int:
    if channels not in (1, 3):
        raise UserError("pictures have 1 or 3 channels", got=f"a model with {channels}", hint="set model.channels=3")
    return channels


def _cut_out(image: Image.Image, size: Size, channels: int) -> Tensor:
    height, width = sides(size)
    array = np.asarray(ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC))
    return torch.from_numpy(array.reshape(height, width, channels).copy()).permute(2, 0, 1)


def check_images(paths: Sequence[Path], progress: Progress | None = None, whole: bool = True) -> None:
    """Looks at every picture, and keeps none; what is wrong is told."""
    for _ in map_images(paths, (lambda path: read_image(path, 3)) if whole else read_header, progress):
        pass


def map_images(
    paths: Sequence[Path], work: Callable[[Path], Found], progress: Progress | None
) -> Iterator[Found | None]:
    """What `work` makes of each picture, some at once; a picture that fails is told, and None."""

    def tried(path: Path) -> Found | UserError:
        try:
            return work(path)
        except UserError as error:
            return error

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for start in range(0, len(paths), _AT_ONCE):
            some = paths[start : start + _AT_ONCE]
            for path, found in zip(some, pool.map(tried, some), strict=True):
                if isinstance(found, UserError):
                    tell(found, TOO_LARGE if ALLOWING in found.hint else "a picture that cannot be read")
                elif is_collecting():
                    warn_image(path)
                yield None if isinstance(found, UserError) else found
            if progress:
                progress(start + len(some), len(paths))
