"""Panoptic quality of files in COCO's format: a JSON file, and a folder of PNG files whose colours are segment ids."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.objectives.metrics.segmentation.panoptic import (
    PanopticCounts,
    PanopticMap,
    Quality,
    Segment,
    panoptic_counts,
)


@dataclass(frozen=True)
class Category:
    """A class of segments. is_thing: its objects are counted (things), or it is an area without objects (stuff)."""

    name: str
    is_thing: bool


@dataclass(frozen=True)
class PanopticFiles:
    """The segments of many images. images: the PNG file of an image -> its segments. categories: by COCO's id."""

    path: Path
    images: Mapping[str, Mapping[int, Segment]]
    categories: Mapping[int, Category]

    @property
    def folder(self) -> Path:
        """The folder of the PNG files, which has the name of the JSON file."""
        return self.path.with_suffix("")

    def read(self, name: str) -> PanopticMap:
        """Read the map of an image: the id of a segment is red + 256 * green + 256^2 * blue."""
        try:
            with Image.open(self.folder / name) as image:
                pixels = np.asarray(image.convert("RGB"), dtype=np.int64)
        except (OSError, UnidentifiedImageError) as error:
            reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
            raise UserError(f"cannot read {self.folder / name}", expected="a PNG file", got=reason) from None
        return PanopticMap(pixels @ np.array([1, 256, 256**2]), self.images[name])


@dataclass(frozen=True)
class PanopticResult:
    """The quality of predicted segments. categories: in the order of `counts`."""

    counts: PanopticCounts
    categories: tuple[Category, ...]
    images: int

    def means(self) -> dict[str, Quality]:
        """Return the mean over all categories, over things and over stuff."""
        chosen: dict[str, Callable[[Category], bool]] = {
            "all": lambda one: True,
            "things": lambda one: one.is_thing,
            "stuff": lambda one: not one.is_thing,
        }
        return {
            name: self.counts.mean([index for index, one in enumerate(self.categories) if belongs(one)])
            for name, belongs in chosen.items()
        }

    def per_category(self) -> dict[str, Quality]:
        """Return the quality of each category that has a segment."""
        found = zip(self.categories, self.counts.by_category(), strict=True)
        return {one.name: quality for one, quality in found if not np.isnan(quality.panoptic)}


def open_panoptic(path: Path) -> PanopticFiles:
    """Read a JSON file in COCO's panoptic format."""
    found = read_json(path)
    try:
        categories = {int(one["id"]): Category(str(one["name"]), bool(one["isthing"])) for one in found["categories"]}
        images = {
            str(one["file_name"]): {
                int(part["id"]): Segment(int(part["category_id"]), bool(part.get("iscrowd", 0)))
                for part in one["segments_info"]
            }
            for one in found["annotations"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"cannot read {path} as panoptic annotations",
            expected="COCO's format: categories with isthing, annotations with file_name and segments_info",
            got=f"{type(error).__name__}: {error}",
        ) from None
    return PanopticFiles(path, images, categories)


def panoptic_quality(
    truth: Path, predicted: Path, progress: Callable[[int, int], None] = lambda done, of: None
) -> PanopticResult:
    """Compare predicted segments with the true ones. All images of the truth must be predicted."""
    wanted, found = open_panoptic(truth), open_panoptic(predicted)
    missing = sorted(wanted.images.keys() - found.images.keys())
    if missing:
        raise UserError(
            f"{predicted} does not have all images of {truth}",
            expected=f"{len(wanted.images):,} images",
            got=f"{len(missing):,} are missing, the first is {missing[0]}",
        )
    numbers = {category: index for index, category in enumerate(wanted.categories)}
    counts = PanopticCounts.zeros(len(numbers))
    for done, name in enumerate(sorted(wanted.images)):
        one, other = (_numbered(files.read(name), numbers, files.path) for files in (found, wanted))
        try:
            counts = counts + panoptic_counts(one, other, len(numbers))
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
        progress(done + 1, len(wanted.images))
    return PanopticResult(counts, tuple(wanted.categories.values()), len(wanted.images))


def _numbered(given: PanopticMap, numbers: Mapping[int, int], path: Path) -> PanopticMap:
    """Return the map with categories counted from 0."""
    unknown: list[Any] = [one.category for one in given.segments.values() if one.category not in numbers]
    if unknown:
        raise UserError(f"{path} has a category that the truth does not have", got=unknown[0])
    segments = {key: Segment(numbers[one.category], one.is_crowd) for key, one in given.segments.items()}
    return PanopticMap(given.ids, segments)
