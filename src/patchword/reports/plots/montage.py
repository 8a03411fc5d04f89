"""Draws many small images as one, with a caption above each; Pillow, since matplotlib is slow with hundreds."""

import io
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw
from torch import Tensor

from patchword.reports.colors import INK
from patchword.reports.plots.text_width import font

LINE, GAP = 18, 10  # pixels: the height of a caption line, the gap between images


class Cell(NamedTuple):
    """One image of a montage. pixels: (channels, height, width) uint8. caption: one or two lines."""

    pixels: Tensor
    caption: str
    bold: bool = False


def montage(title: str, rows: Sequence[Sequence[Cell | None]], side: int = 150) -> bytes:
    """Return a PNG; every image is scaled to `side` pixels on its longer side, and None leaves a gap."""
    lines = max((cell.caption.count("\n") + 1 for row in rows for cell in row if cell), default=1)
    wide, high = side + GAP, side + GAP + lines * LINE
    columns = max(map(len, rows), default=1)
    width = max(GAP + columns * wide, 2 * GAP + round(font(16, True).getlength(title)))
    sheet = Image.new("RGB", (width, 40 + len(rows) * high + GAP), "white")
    draw = ImageDraw.Draw(sheet)
    draw.text((sheet.width // 2, 20), title, INK, font(16, True), anchor="mm")
    for down, row in enumerate(rows):
        for along, cell in enumerate(row):
            if cell:
                left, top = GAP + along * wide, 40 + down * high
                for line, words in enumerate(cell.caption.split("\n")):
                    middle = (left + side // 2, top + line * LINE + LINE // 2)
                    draw.text(middle, words, INK, font(12, cell.bold), anchor="mm")
                sheet.paste(_enlarged(cell.pixels, side), (left, top + lines * LINE))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def _enlarged(pixels: Tensor, side: int) -> Image.Image:
    """Small images keep their pixels as squares, as the model gets them."""
    array = pixels.permute(1, 2, 0).contiguous().numpy()
    image = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    factor = side / max(image.size)
    size = (max(1, round(image.width * factor)), max(1, round(image.height * factor)))
    way = Image.Resampling.NEAREST if max(image.size) < 64 else Image.Resampling.BICUBIC
    return image.resize(size, way).convert("RGB")
