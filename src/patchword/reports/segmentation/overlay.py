"""Draws a label map over its image: translucent colours, lines between the classes, and a legend below."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from patchword.reports.detection.colors import Color, class_color
from patchword.reports.detection.drawing import drawing_scale
from patchword.reports.detection.fonts import label_font

SMALLEST = 640  # pixels of the longer side; smaller images are enlarged, so that the legend is readable
_IGNORED = 255
_OPACITY = 0.55
_INK, _PAPER = (28, 32, 36), (255, 255, 255)
_LISTED = 24  # classes of a legend; the largest are listed
_SHADE = 0.45  # of the colour of a line between two classes


def colors_of(classes: int, given: Sequence[Color] = ()) -> tuple[Color, ...]:
    """Return one colour per class: those of the data, or our own."""
    return tuple(given) if len(given) == classes else tuple(class_color(label) for label in range(classes))


def palette_image(labels: NDArray[np.uint8], colors: Sequence[Color]) -> Image.Image:
    """Return class numbers as an image with a palette; IGNORED pixels are black."""
    image = Image.fromarray(labels)
    image.putpalette([part for color in colors for part in color] + [0, 0, 0] * (256 - len(colors)))
    return image


def draw_labels(
    image: Image.Image,
    labels: NDArray[np.uint8],
    colors: Sequence[Color],
    smallest: int = SMALLEST,
    largest: int | None = None,
) -> Image.Image:
    """Return a copy of the image with the colours of its classes. Pixels with the label 255 stay as they are.

    smallest: an image whose longer side is shorter is enlarged by a whole number. largest: a larger image is shrunk.
    """
    scale = drawing_scale(image.size, smallest, largest)
    size = (max(1, round(scale * image.width)), max(1, round(scale * image.height)))
    drawn = image.convert("RGB")
    pixels = np.asarray(drawn if scale == 1 else drawn.resize(size, Image.Resampling.BICUBIC)).astype(np.float32)
    shown = np.asarray(Image.fromarray(labels).resize(size, Image.Resampling.NEAREST))
    table = np.zeros((256, 3), dtype=np.float32)
    table[: len(colors)] = np.array(colors, dtype=np.float32).reshape(-1, 3)
    known = shown != _IGNORED
    own = table[shown]
    pixels[known] += _OPACITY * (own[known] - pixels[known])
    lines = _borders(shown) & known
    pixels[lines] = _SHADE * own[lines]
    return Image.fromarray(pixels.round().clip(0, 255).astype(np.uint8))


def _borders(labels: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return the pixels whose right or lower neighbour has another label."""
    found = np.zeros(labels.shape, dtype=bool)
    found[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    found[:-1] |= labels[:-1] != labels[1:]
    return found


def with_legend(
    drawn: Image.Image, labels: Sequence[NDArray[np.uint8]], classes: Sequence[str], colors: Sequence[Color]
) -> Image.Image:
    """Return the drawn image with the names of the classes below it. labels: maps whose classes are listed."""
    counts = np.bincount(np.concatenate([one.reshape(-1) for one in labels]), minlength=256)[: len(classes)]
    order = [int(label) for label in np.argsort(-counts, kind="stable") if counts[label]]
    listed = sorted(order[:_LISTED])
    type_size = max(13, round((drawn.width * drawn.height) ** 0.5 / 42))
    rows = _placed([classes[label] for label in listed], drawn.width, type_size)
    line = round(1.7 * type_size)
    height = max((row for row, _ in rows), default=-1) + 1
    whole = Image.new("RGB", (drawn.width, drawn.height + height * line + (line // 3 if height else 0)), _PAPER)
    whole.paste(drawn, (0, 0))
    canvas = ImageDraw.Draw(whole)
    for label, (row, left) in zip(listed, rows, strict=True):
        middle = drawn.height + line // 4 + row * line + line // 2
        box = (left, middle - type_size // 2, left + type_size, middle + type_size // 2)
        canvas.rectangle(box, fill=tuple(colors[label]), outline=_INK)
        font = label_font(type_size, classes[label])
        canvas.text((left + round(1.5 * type_size), middle), classes[label], fill=_INK, font=font, anchor="lm")
    return whole


def _placed(names: Sequence[str], width: int, type_size: int) -> list[tuple[int, int]]:
    """Return row and left of each entry of a legend; a row that is full is followed by another one."""
    found, row, left = [], 0, type_size // 2
    for name in names:
        length = round(2.6 * type_size + label_font(type_size, name).getlength(name))
        if left + length > width and left > type_size:
            row, left = row + 1, type_size // 2
        found.append((row, left))
        left += length
    return found


def draw_panels(panels: Sequence[tuple[str, Image.Image]]) -> Image.Image:
    """Return images of one size beside each other, each with its title above."""
    width, height = panels[0][1].size
    size = max(13, round((width * height) ** 0.5 / 26))
    gap, band = size // 2, round(1.7 * size)
    whole = Image.new("RGB", (len(panels) * width + (len(panels) - 1) * gap, height + band), _PAPER)
    canvas = ImageDraw.Draw(whole)
    for place, (title, panel) in enumerate(panels):
        left = place * (width + gap)
        canvas.text((left, band / 2), title, fill=_INK, font=label_font(size, title), anchor="lm")
        whole.paste(panel, (left, band))
    return whole
