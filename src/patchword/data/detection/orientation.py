"""EXIF orientation: cameras store rotated pixels and a tag; images are read upright, and boxes must follow."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.image.archives import opened
from patchword.data.image.image_file import FORMATS, read_header

_TAG = 0x0112
UPRIGHT = 1
# How the stored pixels become the upright image: (transpose first, flip x, flip y). Pillow's exif_transpose does it so.
_MOVES = {
    1: (False, False, False),
    2: (False, True, False),
    3: (False, True, True),
    4: (False, False, True),
    5: (True, False, False),
    6: (True, True, False),
    7: (True, True, True),
    8: (True, False, True),
}


def read_orientation(path: Path) -> int:
    """Return the EXIF orientation of an image file, 1 to 8; 1 is upright."""
    try:
        with opened(path) as file, Image.open(file, formats=FORMATS) as image:
            tag = image.getexif().get(_TAG, UPRIGHT)
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"cannot read the image {path}", got=str(error).split(" <")[0]) from None
    return tag if isinstance(tag, int) and tag in _MOVES else UPRIGHT


def stored_size(path: Path) -> tuple[int, int]:
    """Return height and width of the stored pixels, from the header."""
    _, width, height = read_header(path)
    return height, width


def upright_size(path: Path) -> tuple[int, int]:
    """Return height and width of the upright image, from the header."""
    height, width = stored_size(path)
    return (width, height) if _MOVES[read_orientation(path)][0] else (height, width)


def counts_stored_pixels(annotated: tuple[int, int], stored: tuple[int, int], orientation: int) -> bool:
    """Return True if annotations count the stored pixels and not those of the upright image.

    annotated: height and width in the annotation file. They decide if the image is rotated by 90 degrees and is not
    square. Otherwise the annotations are taken as those of the upright image, as annotation tools show it.
    """
    turned = _MOVES[orientation][0] and stored[0] != stored[1]
    return turned and annotated == stored


def upright_boxes(boxes: NDArray[np.float64], stored: tuple[int, int], orientation: int) -> NDArray[np.float64]:
    """Move boxes (objects, 4) of the stored pixels to the upright image."""
    transposed, flip_x, flip_y = _MOVES[orientation]
    height, width = stored
    x1, y1, x2, y2 = boxes.T
    if transposed:
        x1, y1, x2, y2, height, width = y1, x1, y2, x2, width, height
    if flip_x:
        x1, x2 = width - x2, width - x1
    if flip_y:
        y1, y2 = height - y2, height - y1
    return np.stack((x1, y1, x2, y2), axis=1)


def upright_mask(mask: NDArray[np.bool_], orientation: int) -> NDArray[np.bool_]:
    """Move a mask (height, width) of the stored pixels to the upright image."""
    transposed, flip_x, flip_y = _MOVES[orientation]
    moved = mask.T if transposed else mask
    moved = moved[:, ::-1] if flip_x else moved
    return moved[::-1] if flip_y else moved
