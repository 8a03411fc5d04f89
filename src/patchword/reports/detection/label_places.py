"""Places the labels of boxes: inside the image, and where they cover no other label if there is room."""

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import ImageDraw

from patchword.reports.detection.colors import Color, text_color
from patchword.reports.detection.fonts import label_font
from patchword.reports.plots.numbers import shortened

Area = tuple[float, float, float, float]


@dataclass(frozen=True)
class Label:
    """A text for a box x1, y1, x2, y2 of the drawn image."""

    text: str
    box: Area
    color: Color


@dataclass(frozen=True)
class PlacedLabel:
    """A label and the area that it covers. size: of the type."""

    text: str
    area: Area
    size: int
    color: Color


def place_labels(labels: Sequence[Label], size: tuple[int, int], type_size: int, line: int) -> list[PlacedLabel]:
    """Return where each label goes: above its box, inside it, or below it. size: width and height of the image.

    The first labels are placed first. One that is wider than the image is shortened.
    """
    placed: list[PlacedLabel] = []
    margin = max(2, type_size // 4)
    for label in labels:
        text, width, height = _fitted(label.text, type_size, size[0] - 2 * margin)
        extent = width + 2 * margin, height + margin
        choices = [_moved_inside(place, extent, size) for place in _places(label.box, extent, line)]
        costs = [sum(_overlap(choice, other.area) for other in placed) for choice in choices]
        best = min(range(len(choices)), key=costs.__getitem__)
        placed.append(PlacedLabel(text, choices[best], type_size, label.color))
    return placed


def draw_labels(
    canvas: ImageDraw.ImageDraw, labels: Sequence[Label], size: tuple[int, int], type_size: int, line: int
) -> None:
    """Draw labels as text on a filled area in the colour of the box; the first lie on top."""
    for one in reversed(place_labels(labels, size, type_size, line)):
        x1, y1, x2, y2 = one.area
        ink = text_color(one.color)
        canvas.rectangle((x1, y1, x2 - 1, y2 - 1), fill=one.color, outline=ink)
        middle = (x1 + x2) / 2, (y1 + y2) / 2
        canvas.text(middle, one.text, fill=ink, font=label_font(one.size, one.text), anchor="mm")


def _places(box: Area, extent: tuple[float, float], line: int) -> list[tuple[float, float]]:
    """Return the corners where a label may begin, the best first."""
    x1, y1, x2, y2 = box
    width, height = extent
    right = x2 - width + 1
    above, top, bottom, below = y1 - height + line, y1, y2 - height + 1, y2 + 1 - line
    near = [(x1, above), (x1, top), (right, above), (x1, below), (right, below), (right, top), (x1, bottom)]
    far = [(x2 + 1, y1), (x1 - width, y1), (x1, above - height), (x1, below + height), (x2 + 1, bottom)]
    return near + far


def _moved_inside(corner: tuple[float, float], extent: tuple[float, float], size: tuple[int, int]) -> Area:
    x, y = (max(0.0, min(place, full - own)) for place, own, full in zip(corner, extent, size, strict=True))
    return x, y, min(x + extent[0], size[0]), min(y + extent[1], size[1])


def _fitted(text: str, type_size: int, most: float) -> tuple[str, float, float]:
    """Return a text that is at most this wide, its width and the height of a line."""
    font = label_font(type_size, text)
    ascent, descent = font.getmetrics()
    plain, letters = shortened(text, 200), 200
    while font.getlength(plain) > most and letters > 1:
        letters = min(letters, len(plain)) - 1
        plain = shortened(text, letters)
    return plain, font.getlength(plain), ascent + descent * 0.5


def _overlap(one: Area, other: Area) -> float:
    width, height = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)
