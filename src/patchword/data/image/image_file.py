"""One picture file: its pixels as a viewer shows them, or an error with its name. Nothing large is decoded unasked."""

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from patchword.core.errors import UserError
from patchword.data.faults import doubt
from patchword.data.image.archives import opened

ALLOWING = "PATCHWORD_PIXELS"  # in the environment
PIXELS = int(os.environ.get(ALLOWING) or 64 * 2**20)  # a picture with more is refused by its header
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # no other decoder is tried
SMALLEST = 4  # pixels of a side; a picture with less may be a stand-in
_ENDINGS = {"JPEG": (".jpg", ".jpeg"), "MPO": (".jpg", ".jpeg"), "TIFF": (".tif", ".tiff"), "PPM": (".ppm", ".pgm")}

# Pillow's own limit is above ours, and would only warn of what we refuse.
Image.MAX_IMAGE_PIXELS = max(PIXELS, Image.MAX_IMAGE_PIXELS or 0)
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def read_image(path: Path, channels: int) -> Image.Image:
    """The first frame, upright, in 8 bits, grey or RGB."""
    with _named(path), _open(path) as image:
        return _plain(ImageOps.exif_transpose(image), channels)


def decode_image(data: bytes, path: Path, channels: int) -> Image.Image:
    """The same, of the bytes of a file."""
    with _named(path), _decoder(io.BytesIO(data)) as image:
        return _plain(ImageOps.exif_transpose(image), channels)


def read_header(path: Path) -> tuple[str, int, int]:
    """Format, width and height, by the header alone."""
    with _named(path), _open(path) as image:
        return str(image.format), image.width, image.height


def warn_image(path: Path) -> None:
    """What a readable picture may have wrong; for a report."""
    kind, width, height = read_header(path)
    if min(width, height) < SMALLEST:
        doubt("a picture so small that it may be a stand-in", f"{path}: {width} x {height} pixels")
    endings = _ENDINGS.get(kind, (f".{kind.lower()}",))
    if path.suffix.lower() not in endings:
        doubt("a picture whose ending is another format's (it is read right)", f"{path} is a {kind}")


@contextmanager
def _open(path: Path) -> Iterator[Image.Image]:
    with opened(path) as file, _decoder(file) as image:
        yield image


@contextmanager
def _decoder(file: BinaryIO) -> Iterator[Image.Image]:
    """Refuses by the header what would fill the memory."""
    with Image.open(file, formats=FORMATS) as image:
        if image.width * image.height > PIXELS:
            raise _TooLargeError(f"{image.width:,} x {image.height:,} pixels, more than {PIXELS:,}")
        yield image


class _TooLargeError(ValueError):
    pass


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Every way in which decoders fail, as one error with the file's name and without addresses of memory."""
    try:
        yield
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, OverflowError, EOFError) as error:
        empty = isinstance(error, UnidentifiedImageError) and _is_empty(path)
        reason = "an empty file" if empty else str(error).split(" <")[0].replace(f" '{path}'", "").rstrip(":")
        hint = "remove or replace this file"
        if isinstance(error, (_TooLargeError, Image.DecompressionBombError)):
            hint += f", or allow more pixels: {ALLOWING}=200000000 patchword ..."
        raise UserError(f"cannot read the picture {path}", got=reason, hint=hint) from None


def _is_empty(path: Path) -> bool:
    with opened(path) as file:
        return not file.read(1)


def _plain(image: Image.Image, channels: int) -> Image.Image:
    """8 bits a channel, grey or RGB. Deep greys are scaled (converting would clip them to white); what is transparent
    shows white, as on a page (converting would show colours that nobody sees)."""
    if image.mode.startswith(("I", "F")):
        image = _scaled(image)
    elif image.has_transparency_data:
        seen = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen)
    return image.convert("L" if channels == 1 else "RGB")


def _scaled(image: Image.Image) -> Image.Image:
    """16 bits to 8; numbers beyond those, and fractions, by the largest there is."""
    values = np.asarray(image).astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError("pixels that are not finite")
    largest = max(float(values.max()), 1e-12)
    top = 65535.0 if image.mode.startswith("I") and largest <= 65535 else largest
    return Image.fromarray((values / top * 255).round().clip(0, 255).astype(np.uint8))
