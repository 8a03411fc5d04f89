"""The annotations of a detection data set as records: one per image, and one for the whole set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.masks.polygons import fill_polygons
from patchword.core.masks.run_lengths import RunLengths
from patchword.data.image.splits import Split

Box = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class Polygons:
    """The outline of an object as one or more polygons, each an array (corners, 2) of x, y in pixels."""

    parts: tuple[NDArray[np.float64], ...]

    @property
    def box(self) -> Box:
        """The box x1, y1, x2, y2 around all corners."""
        corners = np.concatenate(self.parts)
        (x1, y1), (x2, y2) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
        return x1, y1, x2, y2


Outline = Polygons | RunLengths


class AnnotatedObject(NamedTuple):
    """One object of an image, as a reader found it. id: its number in the annotation file. area: None if not given."""

    box: Box
    label: int
    id: int
    outline: Outline | None = None
    crowd: bool = False
    difficult: bool = False
    area: float | None = None


@dataclass(frozen=True, eq=False)
class AnnotatedImage:
    """The objects of one image.

    image: its file; a LabelMe file if the image is embedded there. height, width: pixels, as the annotations count
    them. boxes: (objects, 4) float64 as x1, y1, x2, y2 in pixels, x2 and y2 exclusive. labels: (objects,), from 0.
    outlines: per object, None if it has a box only. crowd: True for a region of many objects. areas: those of the file,
    or else of the mask, or else of the box. ids: numbers of the objects in the file `annotations`, where one object is
    called `unit`. difficult: the flag of Pascal VOC. id: number of the image in a COCO file.
    """

    image: Path
    height: int
    width: int
    boxes: NDArray[np.float64]
    labels: NDArray[np.int64]
    outlines: tuple[Outline | None, ...]
    crowd: NDArray[np.bool_]
    areas: NDArray[np.float64]
    ids: NDArray[np.int64]
    difficult: NDArray[np.bool_]
    annotations: Path
    unit: str = "object"
    split: Split | None = None
    id: int = 0

    @classmethod
    def of(
        cls,
        image: Path,
        size: tuple[int, int],
        objects: Sequence[AnnotatedObject],
        annotations: Path,
        unit: str = "object",
        split: Split | None = None,
        id: int = 0,
    ) -> "AnnotatedImage":
        """Build the record from objects. size: height and width."""
        return cls(
            image,
            *size,
            boxes=np.array([one.box for one in objects], dtype=np.float64).reshape(-1, 4),
            labels=np.array([one.label for one in objects], dtype=np.int64),
            outlines=tuple(one.outline for one in objects),
            crowd=np.array([one.crowd for one in objects], dtype=bool),
            areas=np.array([_area(one, size) for one in objects], dtype=np.float64),
            ids=np.array([one.id for one in objects], dtype=np.int64),
            difficult=np.array([one.difficult for one in objects], dtype=bool),
            annotations=annotations,
            unit=unit,
            split=split,
            id=id,
        )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def has_masks(self) -> bool:
        """True if every object has an outline, also if there is no object."""
        return all(outline is not None for outline in self.outlines)

    def select(self, kept: NDArray[np.bool_]) -> "AnnotatedImage":
        """Return the record with some of its objects. kept: (objects,) bool."""
        outlines = tuple(outline for outline, is_kept in zip(self.outlines, kept, strict=True) if is_kept)
        names = ("boxes", "labels", "crowd", "areas", "ids", "difficult")
        return replace(self, outlines=outlines, **{name: getattr(self, name)[kept] for name in names})

    def where(self, index: int) -> str:
        """Return file and number of an object, for messages."""
        return f"{self.annotations}, {self.unit} {self.ids[index]}"

    def mask(self, index: int) -> RunLengths:
        """Return the mask of an object, in the size of the image; polygons are filled by COCO's rule."""
        outline = self.outlines[index]
        if outline is None:
            raise UserError(f"{self.where(index)} has no outline", expected="polygons or a mask", got="a box only")
        if isinstance(outline, RunLengths):
            return outline
        return fill_polygons(outline.parts, self.height, self.width)


def _area(one: AnnotatedObject, size: tuple[int, int]) -> float:
    if one.area is not None:
        return one.area
    if isinstance(one.outline, RunLengths):
        return float(one.outline.area)
    if one.outline is not None:
        return float(fill_polygons(one.outline.parts, *size).area)
    x1, y1, x2, y2 = one.box
    return max(x2 - x1, 0) * max(y2 - y1, 0)


@dataclass(frozen=True, eq=False)
class DetectionDataset:
    """Annotated images and the names of their classes.

    classes: names in the order of the labels. class_ids: the numbers of the classes in the files (COCO's have gaps).
    images: also those without objects. format: how it was read, e.g. "COCO JSON".
    """

    where: Path
    format: str
    classes: tuple[str, ...]
    class_ids: tuple[int, ...]
    images: tuple[AnnotatedImage, ...]

    @cached_property
    def objects(self) -> int:
        """Number of objects of all images."""
        return sum(len(image) for image in self.images)

    @cached_property
    def has_masks(self) -> bool:
        """True if every object has an outline."""
        return all(image.has_masks for image in self.images)

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits that the files define."""
        found = {image.split for image in self.images}
        names: tuple[Split, ...] = ("train", "validation", "test")
        return tuple(name for name in names if name in found)

    def part(self, split: Split) -> "DetectionDataset":
        """Return the images of one split."""
        if split not in self.splits:
            raise UserError(
                f"{self.where} has no {split} split",
                expected=" or ".join(self.splits) or "a data set with splits",
                hint="name the annotation file of each split" if not self.splits else "",
            )
        return replace(self, images=tuple(image for image in self.images if image.split == split))

    @property
    def summary(self) -> str:
        """Numbers of images, objects and classes, and the format."""
        empty = sum(len(image) == 0 for image in self.images)
        counts = f"{len(self.images):,} images ({empty:,} without objects), {self.objects:,} objects"
        outlines = "outlines" if self.objects and self.has_masks else "boxes"
        return f"{counts} of {len(self.classes):,} classes, {outlines}, {self.format}"
