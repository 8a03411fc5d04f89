"""Truth beside prediction: the same image twice, each with its title."""

from collections.abc import Sequence

from PIL import Image, ImageDraw

from patchword.reports.detection.drawing import SMALLEST, DrawnObject, draw_objects
from patchword.reports.detection.fonts import label_font

_INK, _PAPER = (28, 32, 36), (255, 255, 255)


def draw_beside(
    image: Image.Image,
    panels: Sequence[tuple[str, Sequence[DrawnObject]]],
    smallest: int = SMALLEST,
    largest: int | None = 900,
) -> Image.Image:
    """Return the image once per panel, from left to right. panels: a title and the objects to draw.

    smallest, largest: of the longer side of one panel, in pixels.
    """
    drawn = [draw_objects(image, objects, smallest, largest) for _, objects in panels]
    width, height = drawn[0].size
    size = max(14, round((width * height) ** 0.5 / 28))
    gap, band = size // 2, round(1.7 * size)
    whole = Image.new("RGB", (len(drawn) * width + (len(drawn) - 1) * gap, height + band), _PAPER)
    canvas = ImageDraw.Draw(whole)
    for place, (title, panel) in enumerate(zip((title for title, _ in panels), drawn, strict=True)):
        left = place * (width + gap)
        canvas.text((left, band / 2), title, fill=_INK, font=label_font(size, title), anchor="lm")
        whole.paste(panel, (left, band))
    return whole
