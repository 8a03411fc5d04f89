"""What the readers share: numbers, sizes, names and image files, each checked with a message that names its place."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.masks.polygons import LARGEST
from patchword.data.image.image_file import PIXELS
from patchword.data.image.sources import IMAGE_SUFFIXES
from patchword.data.image.splits import Split

CLASS_FILES = ("classes.txt", "labels.txt", "obj.names")
_LARGEST_WHOLE = 2**53  # a float64 holds every whole number up to this one
_LONGEST_NAME = 200  # characters of a part of a path; longer ones are no files
_MOST_FOLDERS = 15  # parts of a path
_SPLITS: tuple[tuple[str, Split], ...] = (
    ("train", "train"),
    ("val", "validation"),
    ("dev", "validation"),
    ("test", "test"),
)


def number(value: object, where: str) -> float:
    """Return a finite number, which a file may hold as text."""
    try:
        found = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise UserError(f"{where}: not a finite number", expected="a number", got=_short(value))
    return found


def whole(value: object, where: str) -> int:
    """Return a whole number, which a file may hold as text."""
    if type(value) is int and abs(value) <= _LARGEST_WHOLE:  # most of them: COCO files have millions
        return value
    found = number(value, where)
    if found != int(found) or abs(found) > _LARGEST_WHOLE:
        raise UserError(f"{where}: not a whole number", expected=f"at most {_LARGEST_WHOLE:,}", got=_short(value))
    return int(found)


def flag(value: object, where: str) -> bool:
    """Return a flag, which is true, false or a number."""
    return value if isinstance(value, bool) else whole(value, where) != 0


def numbers(value: object, where: str, count: int | None = None) -> list[float]:
    """Return a list of finite numbers. count: how many there must be."""
    if not isinstance(value, (list, tuple)) or (count is not None and len(value) != count):
        raise UserError(f"{where}: not a list of numbers", expected=f"{count or 'some'} numbers", got=_short(value))
    if set(map(type, value)) == {float} and math.isfinite(sum(value)):  # most of them; a sum is faster than a loop
        return list(value)
    return [number(one, where) for one in value]


def image_size(height: object, width: object, where: str) -> tuple[int, int]:
    """Return the height and the width of an image as a file gives them."""
    sides = whole(height, f"{where}, height"), whole(width, f"{where}, width")
    if min(sides) < 1 or sides[0] * sides[1] > PIXELS:
        raise UserError(
            f"{where}: not the size of an image",
            expected=f"height x width, 1 to {PIXELS:,} pixels",
            got=f"{sides[0]} x {sides[1]}",
        )
    return sides


def polygon(flat: Sequence[float], where: str) -> NDArray[np.float64]:
    """Return the corners (corners, 2) of x1, y1, x2, y2, ..."""
    if len(flat) < 6 or len(flat) % 2:
        got = f"{len(flat)} numbers" if len(flat) % 2 else f"{len(flat) // 2} corners"
        raise UserError(f"{where}: not a polygon", expected="three corners x, y or more", got=got)
    corners = np.asarray(flat, dtype=np.float64).reshape(-1, 2)
    if (np.abs(corners) > LARGEST).any():
        raise UserError(f"{where}: a corner far outside of the image", expected=f"at most {LARGEST:g} pixels")
    return corners


def text_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file."""
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}", expected="a UTF-8 text file", got=str(error)) from None


def class_file(folders: Iterable[Path]) -> tuple[str, ...] | None:
    """Return the class names of the first classes.txt, labels.txt or obj.names in some folders; None without one."""
    for path in (folder / name for folder in folders for name in CLASS_FILES):
        if path.is_file():
            names = tuple(line.strip() for line in text_lines(path) if line.strip())
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise UserError(f"{path}: the class {twice!r} is listed twice", hint="remove one line")
            return names
    return None


def split_of(name: str) -> Split | None:
    """Return the split that the name of a file or folder names, such as `instances_val2017`; None without one."""
    found = {split for word, split in _SPLITS if word in name.lower()}
    return found.pop() if len(found) == 1 else None


def image_named(stem: Path) -> Path | None:
    """Return the image with this path, whose suffix is not known; None if there is none."""
    for suffix in sorted(IMAGE_SUFFIXES):
        for path in (stem.with_name(stem.name + suffix), stem.with_name(stem.name + suffix.upper())):
            if path.is_file():
                return path
    return None


def images_in(folder: Path) -> list[Path]:
    """Return the images in a folder and below it, sorted."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    return sorted(path for path in found if not path.name.startswith("."))


def unknown_class(where: str, got: object, known: Sequence[str]) -> UserError:
    """Return the error of an object whose class is not in the list of classes."""
    shown = ", ".join(known[:10]) + (f", ... ({len(known)} classes)" if len(known) > 10 else "")
    return UserError(f"{where}: unknown class", expected=shown or "a class", got=got)


def local_name(name: str) -> str:
    """Return a file name of an annotation file with slashes; those written on Windows have backslashes.

    Names that no file can have are shortened, so that they are missing files.
    """
    parts = name.replace("\\", "/").replace("\0", "?").split("/")
    return "/".join(part[:_LONGEST_NAME] for part in parts[-_MOST_FOLDERS:])


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
