"""Where examples come from: idx files, picture files that something lists, or the digits of scikit-learn."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, get_args

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.grid import Size
from patchword.data.faults import attempt, doubt, give_up
from patchword.data.image.decoding import check_images
from patchword.data.image.duplicates import warn_duplicates
from patchword.data.image.idx import read_idx
from patchword.data.image.images import Images, in_memory, load_pixels
from patchword.data.image.splits import Split, brings_validation, in_split
from patchword.data.progress import Progress

PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


class Source(Protocol):
    """A set of examples; nothing is read before a part is asked for, so the test part stays unread until the end."""

    @property
    def name(self) -> str: ...

    @property
    def brings_validation(self) -> bool:
        """whether it has a validation part of its own; otherwise some of the training part is set aside"""
        ...

    def read(self, part: Split, size: Size, channels: int, progress: Progress | None = None) -> Images: ...

    def check(self, size: Size, channels: int) -> None:
        """Finds damage in the parts that are not trained on, before hours of training, and hands nothing out."""
        ...

    def examine(self, progress: Progress | None = None) -> int:
        """Reads every file whole, keeps nothing, and answers how many samples there are."""
        ...


@dataclass(frozen=True)
class IdxSource:
    """Four files: images and labels, for training and for test."""

    name: str
    folder: Path
    classes: tuple[str, ...]
    origin: str
    brings_validation: bool = False

    def read(self, part: Split, size: Size, channels: int, progress: Progress | None = None) -> Images:
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
        return Images(self.name, self.origin, in_memory(pixels[:, None], size, channels), labels, self.classes, keys)

    def check(self, size: Size, channels: int) -> None:
        self.read("test", size, channels)

    def examine(self, progress: Progress | None = None) -> int:
        found = [attempt(self.read, part, 28, 1) for part in ("train", "test")]
        return sum(len(images) for images in found if images is not None)

    def _read(self, name: str) -> Tensor:
        return read_idx(self._file(name))

    def _file(self, name: str) -> Path:
        for path in (self.folder / f"{name}.gz", self.folder / name):
            if path.is_file():
                return path
        raise UserError(f"{self.folder} lacks {name}", expected=f"{name}.gz or {name}")


@dataclass(frozen=True)
class DigitsSource:
    """1,797 real 8 x 8 digits that scikit-learn carries; every fifth is for test."""

    name: str = "digits"
    brings_validation: bool = False

    def read(self, part: Split, size: Size, channels: int, progress: Progress | None = None) -> Images:
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise UserError("the digits come with scikit-learn", hint="pip install 'patchword[digits]'") from None
        bunch = load_digits()
        pixels = torch.from_numpy(bunch.images * (255 / 16)).round().to(torch.uint8)[:, None]
        labels = torch.from_numpy(bunch.target).long()
        chosen = (torch.arange(len(labels)) % 5 == 4) == (part == "test")
        found, names = in_memory(pixels[chosen], size, channels), tuple(str(digit) for digit in range(10))
        return Images(self.name, "scikit-learn", found, labels[chosen], names, torch.arange(len(labels))[chosen])

    def check(self, size: Size, channels: int) -> None:
        """scikit-learn answers for its own files"""

    def examine(self, progress: Progress | None = None) -> int:
        return len(self.read("train", 8, 1)) + len(self.read("test", 8, 1))


@dataclass(frozen=True)
class ListedSource:
    """Picture files with a label each, and perhaps the part they belong to."""

    name: str
    rows: tuple[tuple[Path, str, Split | None], ...]  # path, label, part if one is given

    @property
    def brings_validation(self) -> bool:
        return brings_validation(part for _, _, part in self.rows)

    def read(self, part: Split, size: Size, channels: int, progress: Progress | None = None) -> Images:
        if not self.rows:
            give_up()
        classes = tuple(sorted({label for _, label, _ in self.rows}))
        numbers = {label: number for number, label in enumerate(classes)}
        labels = torch.tensor([numbers[label] for _, label, _ in self.rows])
        chosen = self._in_split(part, labels).nonzero()[:, 0]
        paths = [self.rows[row][0] for row in chosen.tolist()]
        pixels = load_pixels(paths, size, channels, progress)
        origin = f"{len(self.rows):,} picture files"
        return Images(self.name, origin, pixels, labels[chosen], classes, self.keys()[chosen])

    def check(self, size: Size, channels: int) -> None:
        self._check_classes()
        parts: list[Split] = ["validation", "test"] if self.brings_validation else ["test"]
        check_images([self.rows[row][0] for part in parts for row in self._rows_of(part)])

    def examine(self, progress: Progress | None = None) -> int:
        attempt(self._check_classes)
        check_images([path for path, _, _ in self.rows], progress)
        return len(self.rows)

    def _check_classes(self) -> None:
        """One class teaches nothing; one that is not trained on is never answered; copies flatter the test."""
        labels = {label for _, label, _ in self.rows}
        if len(labels) == 1:
            raise UserError(f"all pictures of {self.name} are of one class", expected="two or more", got=labels.pop())
        parts: dict[int, Split] = {row: part for part in get_args(Split) for row in self._rows_of(part)}
        for label in sorted(labels - {self.rows[row][1] for row, part in parts.items() if part == "train"}):
            doubt("a class without pictures to train on", f"{self.name}: {label}")
        warn_duplicates([(path, label, parts[row]) for row, (path, label, _) in enumerate(self.rows)])

    def _rows_of(self, part: Split) -> list[int]:
        classes = {label: number for number, label in enumerate(sorted({label for _, label, _ in self.rows}))}
        labels = torch.tensor([classes[label] for _, label, _ in self.rows])
        return self._in_split(part, labels).nonzero()[:, 0].tolist()

    def names(self) -> list[str]:
        """of the files, below the folder that holds them all"""
        root = os.path.commonpath([path.parent for path, _, _ in self.rows])
        return [os.path.relpath(path, root) for path, _, _ in self.rows]

    def keys(self) -> Tensor:
        """From the names of the files, so that a new picture does not move the others from part to part."""
        digests = (hashlib.sha256(os.fsencode(name)).digest() for name in self.names())
        return torch.tensor([int.from_bytes(digest[:7], "big") for digest in digests])

    def _in_split(self, part: Split, labels: Tensor) -> Tensor:
        return in_split(self.name, part, [given for _, _, given in self.rows], labels, self.keys())
