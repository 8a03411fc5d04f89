"""Sources of labelled images: idx files, listed image files, or the digits of scikit-learn."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, get_args

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.faults import attempt, give_up, warn
from patchword.data.image.decoding import check_images
from patchword.data.image.duplicates import warn_duplicates
from patchword.data.image.idx import read_idx
from patchword.data.image.image_file import is_color
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.images import Images, in_memory, load_pixels
from patchword.data.image.near_duplicates import Thumbnails, warn_near_duplicates
from patchword.data.image.splits import Part, Split, has_test, has_validation, in_split
from patchword.data.progress import Progress
from patchword.data.sample_digests import Contents
from patchword.data.skipping import FaultySamples

COLOR_SAMPLE = 64  # images that are looked at to find out whether a data set has colours
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


class ImageSource(Protocol):
    """A data set. A split is read only when requested, so the test split stays unread until the end."""

    @property
    def name(self) -> str: ...

    @property
    def has_validation(self) -> bool:
        """True if it has a validation split; otherwise some training data is held out"""
        ...

    @property
    def has_test(self) -> bool:
        """True if it has a test split; otherwise some data is held out"""
        ...

    def read(self, part: Part, format: ImageFormat, progress: Progress | None = None) -> Images: ...

    def has_color(self) -> bool:
        """True if an image of an evenly spaced sample has colour channels"""
        ...

    def check(self, format: ImageFormat) -> None:
        """Check the splits that are not trained on, so that faults are found before training."""
        ...

    def examine(self, progress: Progress | None = None) -> int:
        """Read every file completely and return the number of samples."""
        ...

    def contents(self, part: Split) -> Contents:
        """Return the samples of a split as they are stored, also those that cannot be decoded."""
        ...


@dataclass(frozen=True)
class IdxSource:
    """Four idx files: images and labels, for training and for test."""

    name: str
    folder: Path
    classes: tuple[str, ...]
    origin: str
    has_validation: bool = False
    has_test: bool = True

    def read(self, part: Part, format: ImageFormat, progress: Progress | None = None) -> Images:
        stem = "train" if part == "train" else "t10k"
        pixels, found = (
            attempt(self._read, f"{stem}-images-idx3-ubyte"),
            attempt(self._read, f"{stem}-labels-idx1-ubyte"),
        )
        if pixels is None or found is None:
            give_up()
        labels = found.long()
        if pixels.ndim != 3 or labels.shape != pixels.shape[:1]:
            raise UserError(
                f"{self.folder}: the {stem} images and labels do not belong together",
                expected="images (count, height, width) and labels (count)",
                got=f"{tuple(pixels.shape)} and {tuple(labels.shape)}",
            )
        keys = torch.arange(len(labels))
        return Images(self.name, self.origin, in_memory(pixels[:, None], format), labels, self.classes, keys)

    def has_color(self) -> bool:
        return False

    def check(self, format: ImageFormat) -> None:
        self.read("test", format)

    def examine(self, progress: Progress | None = None) -> int:
        found = [attempt(self.read, part, ImageFormat(28, 1)) for part in ("train", "test")]
        return sum(len(images) for images in found if images is not None)

    def contents(self, part: Split) -> Contents:
        stem = "train" if part == "train" else "t10k"
        return Contents.of_array(self._read(f"{stem}-images-idx3-ubyte"), f"{self.name}, {part} split")

    def _read(self, name: str) -> Tensor:
        return read_idx(self._file(name))

    def _file(self, name: str) -> Path:
        for path in (self.folder / f"{name}.gz", self.folder / name):
            if path.is_file():
                return path
        raise UserError(f"{self.folder} lacks {name}", expected=f"{name}.gz or {name}")


@dataclass(frozen=True)
class DigitsSource:
    """The 1,797 handwritten 8 x 8 digits of scikit-learn; every fifth is in the test split."""

    name: str = "digits"
    has_validation: bool = False
    has_test: bool = True

    def read(self, part: Part, format: ImageFormat, progress: Progress | None = None) -> Images:
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise UserError(
                "the digits need the package scikit-learn", hint="pip install 'patchword[digits]'"
            ) from None
        bunch = load_digits()
        pixels = torch.from_numpy(bunch.images * (255 / 16)).round().to(torch.uint8)[:, None]
        labels = torch.from_numpy(bunch.target).long()
        chosen = (torch.arange(len(labels)) % 5 == 4) == (part == "test")
        found, names = in_memory(pixels[chosen], format), tuple(str(digit) for digit in range(10))
        return Images(self.name, "scikit-learn", found, labels[chosen], names, torch.arange(len(labels))[chosen])

    def has_color(self) -> bool:
        return False

    def check(self, format: ImageFormat) -> None:
        """Nothing to check: the files are part of scikit-learn."""

    def examine(self, progress: Progress | None = None) -> int:
        return len(self.read("train", ImageFormat(8, 1))) + len(self.read("test", ImageFormat(8, 1)))

    def contents(self, part: Split) -> Contents:
        images = self.read(part, ImageFormat(8, 1))
        return Contents.of_array(images.pixels.take(torch.arange(len(images))), f"{self.name}, {part} split")


@dataclass(frozen=True)
class ListedSource:
    """Image files with a label each, and optionally a split. min_classes: 1 if the labels are not used

    thumbnails: of the images that were decoded so far.
    """

    name: str
    rows: tuple[tuple[Path, str, Split | None], ...]  # path, label, split or None
    min_classes: int = 2
    thumbnails: Thumbnails = field(default_factory=Thumbnails, repr=False, compare=False)

    @property
    def has_validation(self) -> bool:
        return has_validation(part for _, _, part in self.rows)

    @property
    def has_test(self) -> bool:
        return has_test(part for _, _, part in self.rows)

    def read(self, part: Part, format: ImageFormat, progress: Progress | None = None) -> Images:
        if not self.rows:
            give_up()
        classes = tuple(sorted({label for _, label, _ in self.rows}))
        numbers = {label: number for number, label in enumerate(classes)}
        labels = torch.tensor([numbers[label] for _, label, _ in self.rows])
        chosen = self._in_split(part, labels).nonzero()[:, 0]
        pixels, good = load_pixels(self._files(chosen.tolist()), format, self._faulty(part), progress, self.thumbnails)
        origin, chosen = f"{len(self.rows):,} image files", chosen[good]
        return Images(self.name, origin, pixels, labels[chosen], classes, self.keys()[chosen])

    def has_color(self) -> bool:
        sample = self.rows[:: -(-len(self.rows) // COLOR_SAMPLE) or 1]
        return any(_has_color(path) for path, _, _ in sample)

    def check(self, format: ImageFormat) -> None:
        copies = self._check_classes()
        parts: list[Split] = ["validation", "test"] if self.has_validation else ["test"]
        for part in parts:
            check_images(self._files(self._rows_of(part)), self._faulty(part), thumbnails=self.thumbnails)
        self._warn_near_duplicates(copies)

    def examine(self, progress: Progress | None = None) -> int:
        copies = attempt(self._check_classes)
        check_images(self._files(range(len(self.rows))), self._faulty("all"), progress, thumbnails=self.thumbnails)
        if copies is not None:
            self._warn_near_duplicates(copies)
        return len(self.rows)

    def contents(self, part: Split) -> Contents:
        rows, names = self._rows_of(part), self.names()
        return Contents.of_files([names[row] for row in rows], [self.rows[row][0] for row in rows])

    def _files(self, rows: Iterable[int]) -> list[tuple[Path, str]]:
        return [self.rows[row][:2] for row in rows]

    def _faulty(self, part: Part) -> FaultySamples:
        return FaultySamples(f"{self.name}, {part} split", "images", training=part == "train")

    def _warn_near_duplicates(self, known: set[Path]) -> None:
        splits = {part: [self.rows[row][0] for row in self._rows_of(part)] for part in get_args(Split)}
        warn_near_duplicates(self.thumbnails, splits, known)

    def _check_classes(self) -> set[Path]:
        """Refuse too few classes; warn of classes without training images and of duplicates, and return the latter."""
        labels = {label for _, label, _ in self.rows}
        if len(labels) == 1 < self.min_classes:
            raise UserError(f"all images of {self.name} have the same class", expected="two or more", got=labels.pop())
        parts: dict[int, Split] = {row: part for part in get_args(Split) for row in self._rows_of(part)}
        trained = Counter(self.rows[row][1] for row, part in parts.items() if part == "train")
        if not self.has_validation and max(trained.values(), default=0) < 2:
            what = f"{self.name} has too few images to keep any for validation"
            raise UserError(what, expected="two or more training images of some class")
        for label in sorted(labels - trained.keys()):
            warn("a class without training images", f"{self.name}: {label}")
        return warn_duplicates([(path, label, parts[row]) for row, (path, label, _) in enumerate(self.rows)])

    def _rows_of(self, part: Split) -> list[int]:
        classes = {label: number for number, label in enumerate(sorted({label for _, label, _ in self.rows}))}
        labels = torch.tensor([classes[label] for _, label, _ in self.rows])
        return self._in_split(part, labels).nonzero()[:, 0].tolist()

    def names(self) -> list[str]:
        """Return the paths of the files, relative to their common folder."""
        root = os.path.commonpath([path.parent for path, _, _ in self.rows])
        return [os.path.relpath(path, root) for path, _, _ in self.rows]

    def keys(self) -> Tensor:
        """Return hashes of the file names, so that a new image does not change the split of the others."""
        digests = (hashlib.sha256(os.fsencode(name)).digest() for name in self.names())
        return torch.tensor([int.from_bytes(digest[:7], "big") for digest in digests])

    def _in_split(self, part: Part, labels: Tensor) -> Tensor:
        return in_split(self.name, part, [given for _, _, given in self.rows], labels, self.keys())


def _has_color(path: Path) -> bool:
    """Return False for an image that cannot be read; it is reported when its pixels are read."""
    try:
        return is_color(path)
    except UserError:
        return False
