"""Read one image file: its pixels as a viewer shows them, or an error with its name. Huge images are refused."""

import io
import os
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from patchword.core.errors import UserError
from patchword.data.faults import warn
from patchword.data.image.archives import opened

ALLOWING = "PATCHWORD_PIXELS"  # in the environment
PIXELS = int(os.environ.get(ALLOWING) or 50_000_000)  # maximum, checked in the header: 200 MB in colour
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # no other decoder is tried
SMALLEST = 4  # pixels of a side; a smaller image may be a placeholder
_GREY = ("1", "L", "LA", "La")  # Pillow's modes, besides those of 16 and more bits
_SLOW, _MOST_SLOW = (b"P1", b"P2", b"P3"), 1_000_000  # PPM of digits: one of 8 MB takes seconds
_ENDINGS = {"JPEG": (".jpg", ".jpeg"), "MPO": (".jpg", ".jpeg"), "TIFF": (".tif", ".tiff"), "PPM": (".ppm", ".pgm")}

# Pillow's own limit is higher than ours and would only warn.
Image.MAX_IMAGE_PIXELS = max(PIXELS, Image.MAX_IMAGE_PIXELS or 0)
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def read_image(path: Path, channels: int) -> Image.Image:
    """Read the first frame, upright, with 8 bits per channel, grey or RGB."""
    with _named(path), _open(path) as image:
        return _upright(image, channels)


def decode_image(data: bytes, path: Path, channels: int) -> Image.Image:
    """Decode the bytes of an image file like `read_image`."""
    with _named(path), _decoder(io.BytesIO(data)) as image:
        return _upright(image, channels)


def decode_upload(data: bytes, channels: int, most_pixels: int) -> Image.Image:
    """Decode the bytes of an image that is in no file, e.g. of a request. most_pixels: checked in the header."""
    if data[:2] in _SLOW and len(data) > _MOST_SLOW:
        raise UserError("this image is written as text", expected="a file such as PNG or JPEG")
    try:
        with _decoder(io.BytesIO(data), most_pixels) as image:
            return _upright(image, channels)
    except (_TooLargeError, Image.DecompressionBombError) as error:
        expected, got = f"at most {most_pixels:,} pixels", _reason(error) if isinstance(error, _TooLargeError) else None
        raise UserError("the image has too many pixels", expected=expected, got=got) from None
    except (*_ERRORS, LookupError, TypeError, struct.error) as error:  # what decoders raise for wrong bytes
        expected = "a complete file of PNG, JPEG, GIF, WebP, BMP, TIFF or PPM"
        raise UserError("this is not an image that can be read", expected=expected, got=_reason(error)) from None


def convert_image(image: Image.Image, channels: int) -> Image.Image:
    """Convert an open image like `read_image`: upright, with 8 bits per channel, grey or RGB."""
    return _plain(ImageOps.exif_transpose(image), channels)


def read_header(path: Path) -> tuple[str, int, int]:
    """Return format, width and height from the header."""
    with _named(path), _open(path) as image:
        return str(image.format), image.width, image.height


def is_color(path: Path) -> bool:
    """True if the header declares colours; a grey photo saved with three channels counts as one with colours."""
    with _named(path), _open(path) as image:
        return image.mode not in _GREY and not image.mode.startswith(("I", "F"))


def warn_image(path: Path) -> None:
    """Warn of a readable image that may be a mistake: a tiny one, or a wrong suffix."""
    kind, width, height = read_header(path)
    if min(width, height) < SMALLEST:
        warn("an image so small that it may be a placeholder", f"{path}: {width} x {height} pixels")
    endings = _ENDINGS.get(kind, (f".{kind.lower()}",))
    if path.suffix.lower() not in endings:
        warn("an image with the suffix of another format (it is read correctly)", f"{path} is a {kind}")


@contextmanager
def _open(path: Path) -> Iterator[Image.Image]:
    with opened(path) as file, _decoder(file) as image:
        yield image


@contextmanager
def _decoder(file: BinaryIO, most_pixels: int | None = None) -> Iterator[Image.Image]:
    """Open an image; refuse it by its header if it has too many pixels."""
    most = PIXELS if most_pixels is None else most_pixels
    with Image.open(file, formats=FORMATS) as image:
        if image.width * image.height > most:
            raise _TooLargeError(f"{image.width:,} x {image.height:,} pixels, more than {most:,}")
        yield image


class _TooLargeError(ValueError):
    pass


_ERRORS = (OSError, SyntaxError, ValueError, Image.DecompressionBombError, OverflowError, EOFError)  # of decoders


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Convert all errors of decoders to a UserError with the file's name and without memory addresses."""
    try:
        yield
    except _ERRORS as error:
        empty = isinstance(error, UnidentifiedImageError) and _is_empty(path)
        reason = "an empty file" if empty else _reason(error).replace(f" '{path}'", "").rstrip(":")
        hint = "remove or replace this file"
        if isinstance(error, (_TooLargeError, Image.DecompressionBombError)):
            hint += f", or allow more pixels: {ALLOWING}=200000000 patchword ..."
        raise UserError(f"cannot read the image {path}", got=reason, hint=hint) from None


def _reason(error: Exception) -> str:
    """Return what a decoder reports, without memory addresses."""
    return str(error).split(" <")[0]


def _is_empty(path: Path) -> bool:
    with opened(path) as file:
        return not file.read(1)


def _upright(image: Image.Image, channels: int) -> Image.Image:
    """Decode an image that was opened from a file, which is turned in its own memory."""
    ImageOps.exif_transpose(image, in_place=True)
    return _plain(image, channels)


def _plain(image: Image.Image, channels: int) -> Image.Image:
    """Convert to 8 bits per channel, grey or RGB. High bit depths are scaled (plain conversion would clip them to
    white);
    transparent pixels become white (plain conversion would show their hidden colours)."""
    if image.mode.startswith(("I", "F")):
        image = _scaled(image)
    elif image.has_transparency_data:
        seen = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen)
    mode = "L" if channels == 1 else "RGB"
    if image.mode != mode:
        return image.convert(mode)
    image.load()
    return image


def _scaled(image: Image.Image) -> Image.Image:
    """Scale 16-bit values to 8 bits; larger values and floats are divided by the maximum."""
    values = np.asarray(image).astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError("pixels that are not finite")
    if values.max() < 0:
        raise ValueError("pixels of which all are negative, so that none says what is white")
    largest = max(float(values.max()), 1e-12)
    top = 65535.0 if image.mode.startswith("I") and largest <= 65535 else largest
    return Image.fromarray((values / top * 255).round().clip(0, 255).astype(np.uint8))
