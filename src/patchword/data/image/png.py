"""Pixels as PNG files."""

import io

from PIL import Image
from torch import Tensor, uint8

MOST = 128  # pixels per side; larger images are scaled down


def png_bytes(pixels: Tensor, most: int = MOST) -> bytes:
    """Return (channels, height, width) uint8, of one or three channels, as a small PNG."""
    plain = pixels.to("cpu", uint8)
    image = Image.fromarray(plain[0].numpy() if len(plain) == 1 else plain.permute(1, 2, 0).contiguous().numpy())
    image.thumbnail((most, most))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
