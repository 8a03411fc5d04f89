"""Faults of the boxes and outlines of one image, by object."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths
from patchword.data.detection.records import AnnotatedImage, Polygons
from patchword.data.faults import warn

TOLERANCE = 0.5  # pixels that a box may exceed the image: annotation files hold rounded numbers
_TINY = 4  # pixels of a box below which its outline may cover no pixel


def object_faults(image: AnnotatedImage) -> Iterator[tuple[int, UserError, str]]:
    """Yield the index of a faulty object, its error, and the kind of fault, if similar messages do not give it."""
    seen: dict[object, int] = {}
    for index in range(len(image)):
        for error in _faults(image, index):
            yield index, error, ""
        first = seen.setdefault(_identity(image, index), index)
        if first != index:
            what = f"{image.where(index)}: the object is a duplicate of {image.unit} {image.ids[first]}"
            yield index, UserError(what, hint="remove one of them"), "an object that is annotated twice"


def _faults(image: AnnotatedImage, index: int) -> Iterator[UserError]:
    where, box = image.where(index), image.boxes[index]
    x1, y1, x2, y2 = box.tolist()
    shown = f"x {x1:g} to {x2:g}, y {y1:g} to {y2:g}"
    inside = f"x 0 to {image.width}, y 0 to {image.height}"
    if x2 < x1 or y2 < y1:
        yield UserError(f"{where}: the corners of the box are swapped", expected="x1 < x2 and y1 < y2", got=shown)
    elif x2 == x1 or y2 == y1 or max(x2 - x1, y2 - y1) <= 1:
        expected = "a width and a height above 0 pixels, one of them above 1"
        yield UserError(f"{where}: the box is empty or a single pixel", expected=expected, got=shown)
    if _is_outside(box.reshape(2, 2), image):
        yield UserError(f"{where}: the box is outside of the image", expected=inside, got=shown)
    outline = image.outlines[index]
    if isinstance(outline, RunLengths) and (outline.height, outline.width) != (image.height, image.width):
        yield UserError(
            f"{where}: the mask has another size than the image",
            expected=f"{image.width} x {image.height}",
            got=f"{outline.width} x {outline.height}",
        )
    elif isinstance(outline, Polygons) and any(_is_outside(part, image) for part in outline.parts):
        yield UserError(f"{where}: the polygon is outside of the image", expected=inside, got=_range(outline))
    elif outline is not None and (x2 - x1) * (y2 - y1) < _TINY and image.mask(index).area == 0:
        warn("an outline so small that it covers no pixel", where)


def _is_outside(corners: NDArray[np.float64], image: AnnotatedImage) -> bool:
    limits = (image.width + TOLERANCE, image.height + TOLERANCE)
    return bool((corners < -TOLERANCE).any() or (corners > limits).any())


def _range(outline: Polygons) -> str:
    x1, y1, x2, y2 = outline.box
    return f"x {x1:g} to {x2:g}, y {y1:g} to {y2:g}"


def _identity(image: AnnotatedImage, index: int) -> object:
    """Return what two equal objects have in common: class, box and outline."""
    outline = image.outlines[index]
    content = b""
    if isinstance(outline, RunLengths):
        content = outline.counts.tobytes()
    elif outline is not None:
        content = b"".join(part.tobytes() for part in outline.parts)
    return int(image.labels[index]), image.boxes[index].round(3).tobytes(), content
