"""Reads label maps: images whose pixel values are the numbers of classes, or colours."""

from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.image.archives import opened
from patchword.data.image.image_file import FORMATS, read_header
from patchword.data.segmentation.records import Color, Values, packed

_NUMBERS = ("1", "L", "P", "I", "I;16", "I;16B", "LA")
_COLORS = ("RGB", "RGBA")
_LOSSY = ("JPEG", "MPO")
_MOST_VALUES = 1_000  # different values of a label map; more are a photo


@dataclass(frozen=True)
class ScannedMap:
    """What one pass over a label map finds.

    size: height and width. values: the different pixel values. coded: True if they are packed colours. equal: True if
    red, green and blue are equal in every pixel, as where numbers are saved as RGB. palette: the colours of a file with
    a palette. digest: a checksum of the values.
    """

    size: tuple[int, int]
    values: tuple[int, ...]
    coded: bool
    equal: bool
    palette: tuple[Color, ...]
    digest: int


def scan_label_map(path: Path) -> ScannedMap:
    """Decode a label map and return its size and values; raise an error if it is none."""
    pixels, palette, coded = _decoded(path)
    values = np.unique(pixels)
    if len(values) > _MOST_VALUES:
        raise UserError(
            f"{path}: not a label map",
            expected="one value or colour per class",
            got=f"{len(values):,} different values",
            hint="is it a photo, or a map that was resized with interpolation?",
        )
    found = tuple(int(value) for value in values)
    equal = coded and all((value >> 16) == (value >> 8 & 255) == (value & 255) for value in found)
    size = (pixels.shape[0], pixels.shape[1])
    return ScannedMap(size, found, coded, equal, palette, crc32(np.ascontiguousarray(pixels).tobytes()))


def read_label_map(path: Path, coded: bool) -> Values:
    """Return the values (height, width) of a label map. coded: colours, packed into one number each."""
    pixels, _, has_colors = _decoded(path)
    if has_colors and not coded:
        return pixels & 255  # equal channels
    return pixels


def _decoded(path: Path) -> tuple[Values, tuple[Color, ...], bool]:
    """Return the values, the palette, and whether the values are packed colours."""
    kind, *_ = read_header(path)  # refuses files that are no image or too large
    if kind in _LOSSY:
        raise UserError(
            f"{path}: a label map in a lossy format",
            expected="PNG, or another format that keeps each value",
            got=kind,
            hint="JPEG changes the values; save the label maps as PNG",
        )
    try:
        with opened(path) as data, Image.open(data, formats=FORMATS) as image:
            if image.mode in _COLORS:
                return packed(np.asarray(image.convert("RGB"))), (), True
            if image.mode not in _NUMBERS:
                raise UserError(
                    f"{path}: not a label map", expected="one value per pixel, or RGB", got=f"the mode {image.mode}"
                )
            palette = _palette(image) if image.mode == "P" else ()
            array = np.asarray(image.getchannel(0) if image.mode == "LA" else image)
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"cannot read the image {path}", got=str(error).split(" <")[0]) from None
    return array.astype(np.int64), palette, False


def _palette(image: Image.Image) -> tuple[Color, ...]:
    flat = image.getpalette() or []
    return tuple((flat[k], flat[k + 1], flat[k + 2]) for k in range(0, len(flat) - 2, 3))
