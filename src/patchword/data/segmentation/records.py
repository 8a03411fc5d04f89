"""The images of a segmentation data set, and the classes that the values of its label maps mean."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError, nearest
from patchword.data.image.splits import Split

IGNORED = 255
"""The label of a pixel that is neither trained on nor counted."""
MOST_CLASSES = IGNORED  # labels are 0 to 254
_TABLE = 1 << 16  # values that a lookup table has; larger ones are packed colours

Color = tuple[int, int, int]
Values = NDArray[np.int64]
Labels = NDArray[np.uint8]


@dataclass(frozen=True)
class LabelledImage:
    """An image and its label map.

    size: height and width of the label map, as stored. orientation: rotation that the label map needs, as an EXIF
    value; 1 if it is upright already. digest: a checksum of the values of the label map.
    """

    image: Path
    labels: Path
    split: Split | None = None
    size: tuple[int, int] = (0, 0)
    orientation: int = 1
    digest: int = 0


@dataclass(frozen=True)
class ClassTable:
    """The classes of label maps.

    names: in the order of the labels. values: the pixel value of each class in the files; a colour is packed into one
    number. ignored: values of pixels without a class. colors: the colour of each class in the files; empty if the files
    have none. coded: True if the files have colours instead of numbers.
    """

    names: tuple[str, ...]
    values: tuple[int, ...]
    ignored: tuple[int, ...] = (IGNORED,)
    colors: tuple[Color, ...] = ()
    coded: bool = False

    def __post_init__(self) -> None:
        if len(self.names) > MOST_CLASSES:
            raise UserError("too many classes", expected=f"at most {MOST_CLASSES}", got=len(self.names))

    def labels(self, values: Values, where: Path) -> Labels:
        """Return the labels of pixel values; IGNORED where a pixel has no class. where: the file, for messages."""
        if self._table is not None:
            if int(values.max(initial=0)) < len(self._table) and (found := self._table[values]).min(initial=0) >= 0:
                return found.astype(np.uint8)
        else:
            keys, meanings = self._sorted
            place = np.searchsorted(keys, values).clip(max=len(keys) - 1)
            if (keys[place] == values).all():
                by_color: Labels = meanings[place]
                return by_color
        raise unknown_values(where, self, self.unknown(np.unique(values).tolist()))

    def unknown(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return the values that are neither a class nor ignored."""
        known = {*self.values, *self.ignored}
        return tuple(value for value in values if value not in known)

    def without(self, names: Sequence[str]) -> "ClassTable":
        """Return the table without some classes, whose pixels are ignored."""
        for name in names:
            if name not in self.names:
                raise UserError(f"ignored: no class is called {name!r}", hint=nearest(name, self.names))
        kept = [place for place, name in enumerate(self.names) if name not in names]
        gone = [value for value, name in zip(self.values, self.names, strict=True) if name in names]
        return replace(
            self,
            names=tuple(self.names[place] for place in kept),
            values=tuple(self.values[place] for place in kept),
            colors=tuple(self.colors[place] for place in kept) if self.colors else (),
            ignored=tuple(dict.fromkeys((*self.ignored, *gone))),
        )

    @cached_property
    def _sorted(self) -> tuple[Values, Labels]:
        """All known values in order, and the label of each."""
        meaning = {**dict.fromkeys(self.ignored, IGNORED), **{value: n for n, value in enumerate(self.values)}}
        keys = sorted(meaning)
        return np.array(keys, dtype=np.int64), np.array([meaning[key] for key in keys], dtype=np.uint8)

    @cached_property
    def _table(self) -> NDArray[np.int16] | None:
        """The label of each value, -1 if it is unknown; None for colours."""
        keys, labels = self._sorted
        if self.coded or not len(keys) or int(keys[-1]) >= _TABLE:
            return None
        table = np.full(_TABLE, -1, dtype=np.int16)
        table[keys] = labels
        return table


def unknown_values(where: Path, table: ClassTable, values: Sequence[int]) -> UserError:
    """Return the error of a label map with values that are no class."""
    if table.coded:
        shown = ", ".join(str(unpacked(value)) for value in values[:4])
        return UserError(
            f"{where}: pixels of unknown colours",
            expected=f"the colours of {len(table.names)} classes",
            got=shown + (f", ... ({len(values)} colours)" if len(values) > 4 else ""),
            hint="add the colours to the file of the classes; a resized or JPEG map has mixed colours",
        )
    shown = ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
    low, high = min(table.values, default=0), max(table.values, default=0)
    return UserError(
        f"{where}: pixel values that are no class",
        expected=f"{low} to {high}, or an ignored value ({', '.join(map(str, table.ignored)) or 'none'})",
        got=shown,
        hint=f"ignored=[{','.join(map(str, (*table.ignored, *values[:8])))}] leaves these pixels out, "
        "or the names of the classes are incomplete",
    )


def packed(colors: NDArray[np.uint8]) -> Values:
    """Return colours (..., 3) as one number each."""
    wide = colors.astype(np.int64)
    found: Values = (wide[..., 0] << 16) | (wide[..., 1] << 8) | wide[..., 2]
    return found


def unpacked(value: int) -> Color:
    """Return the colour of a packed number."""
    return value >> 16, value >> 8 & 255, value & 255


@dataclass(frozen=True)
class SegmentationDataset:
    """Images with label maps. format: how it was read, e.g. "ADE20K". table: the classes."""

    where: Path
    format: str
    table: ClassTable
    images: tuple[LabelledImage, ...]

    @property
    def summary(self) -> str:
        """Numbers of images and classes, the ignored values, and the format."""
        ignored = "" if self.table.coded else f", ignored values: {', '.join(map(str, self.table.ignored)) or 'none'}"
        return (
            f"{len(self.images):,} images with label maps of {len(self.table.names):,} classes{ignored}, {self.format}"
        )
