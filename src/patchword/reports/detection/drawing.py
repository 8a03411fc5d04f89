"""Draws objects on an image: translucent masks, boxes, and labels that stay inside the image."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from patchword.core.masks.run_lengths import RunLengths
from patchword.reports.detection.colors import Color, class_color
from patchword.reports.detection.label_places import Label, draw_labels

SMALLEST = 640  # pixels of the longer side; smaller images are enlarged, so that labels are readable
_MASK = 0.38  # opacity of a mask
_CROWDED = 25  # objects; from here on lines and type are smaller

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class DrawnObject:
    """One object to draw. box: x1, y1, x2, y2 in pixels of the image. label: class number, which selects the colour.

    text: what its label shows; "" draws none. dashed: draws the box with a dashed line.
    """

    box: Box
    label: int
    text: str = ""
    mask: RunLengths | None = None
    dashed: bool = False


@dataclass(frozen=True)
class Style:
    """Sizes in pixels of the drawn image."""

    line: int
    type: int

    @classmethod
    def of(cls, size: tuple[int, int], objects: int = 0) -> "Style":
        """Return the sizes for an image of width and height; both grow with the image."""
        side = (size[0] * size[1]) ** 0.5
        smaller = 0.75 if objects > _CROWDED else 1.0
        return cls(max(2, round(smaller * side / 170)), max(12, round(smaller * side / 30)))


def draw_objects(
    image: Image.Image, objects: Sequence[DrawnObject], smallest: int = SMALLEST, largest: int | None = None
) -> Image.Image:
    """Return a copy of an image with objects drawn on it; the first of them lie on top.

    smallest: an image whose longer side is shorter is enlarged by a whole number. largest: a larger image is shrunk.
    """
    scale = drawing_scale(image.size, smallest, largest)
    size = (max(1, round(scale * image.width)), max(1, round(scale * image.height)))
    drawn = image.convert("RGB")
    drawn = drawn if scale == 1 else drawn.resize(size, Image.Resampling.BICUBIC)
    style, behind = Style.of(size, len(objects)), list(reversed(objects))
    drawn = _with_masks(drawn, behind, style.line)
    canvas = ImageDraw.Draw(drawn)
    for one in behind:
        _draw_box(canvas, _inside(one.box, scale, size), class_color(one.label), style.line, one.dashed)
    labels = [
        Label(one.text, _inside(one.box, scale, size), class_color(one.label)) for one in objects if one.text.strip()
    ]
    draw_labels(canvas, labels, size, style.type, style.line)
    return drawn


def drawing_scale(size: tuple[int, int], smallest: int = SMALLEST, largest: int | None = None) -> float:
    """Return how many times larger than its width and height an image is drawn."""
    longest = max(size)
    if largest is not None and longest > largest:
        return largest / longest
    return max(1, round(smallest / longest))


def _inside(box: Box, scale: float, size: tuple[int, int]) -> Box:
    """Return a box in pixels of the drawn image, cut at its borders."""
    x1, y1, x2, y2 = (round(scale * side) for side in box)
    left, top = min(max(x1, 0), size[0] - 1), min(max(y1, 0), size[1] - 1)
    return left, top, min(max(x2 - 1, left), size[0] - 1), min(max(y2 - 1, top), size[1] - 1)


def _with_masks(image: Image.Image, objects: Sequence[DrawnObject], line: int) -> Image.Image:
    """Blend the masks with the image, and draw a line at their borders."""
    if all(one.mask is None for one in objects):
        return image.copy()
    pixels = np.asarray(image).astype(np.float32)
    for one in objects:
        if one.mask is not None and one.mask.area:
            found = _resized(one.mask.to_mask(), image.size)
            color = np.array(class_color(one.label), dtype=np.float32)
            pixels[found] += _MASK * (color - pixels[found])
            pixels[_border(found, max(1, line // 2))] = color
    return Image.fromarray(pixels.round().astype(np.uint8))


def _resized(mask: NDArray[np.bool_], size: tuple[int, int]) -> NDArray[np.bool_]:
    grey = Image.fromarray(mask.astype(np.uint8) * 255)
    return np.asarray(grey.resize(size, Image.Resampling.BILINEAR)) > 127


def _border(mask: NDArray[np.bool_], thickness: int) -> NDArray[np.bool_]:
    """Return the pixels of a mask that are at most `thickness` away from its outside; the image's edge is none."""
    inner = mask
    for _ in range(thickness):
        padded = np.pad(inner, 1, mode="edge")
        inner = inner & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    border: NDArray[np.bool_] = mask & ~inner
    return border


def _draw_box(canvas: ImageDraw.ImageDraw, box: Box, color: Color, line: int, dashed: bool) -> None:
    x1, y1, x2, y2 = box
    if not dashed:
        canvas.rectangle(box, outline=color, width=line)
        return
    for low, high in _dashes(x1, x2, 4 * line):
        for y in (y1, max(y1, y2 - line + 1)):
            canvas.rectangle((low, y, high, y + line - 1), fill=color)
    for low, high in _dashes(y1, y2, 4 * line):
        for x in (x1, max(x1, x2 - line + 1)):
            canvas.rectangle((x, low, x + line - 1, high), fill=color)


def _dashes(start: float, end: float, length: int) -> list[tuple[float, float]]:
    """Return the dashes of a line, which has gaps of half their length; the first and the last are at its ends."""
    number = max(1, round((end - start + length / 2) / (1.5 * length)))
    step = (end - start - length) / max(1, number - 1)
    if step <= length or number == 1:
        return [(start, end)]
    return [(start + place * step, start + place * step + length) for place in range(number)]
