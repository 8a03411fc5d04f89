"""Where examples come from: idx files, a folder of classes, a manifest, or the digits of scikit-learn."""

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.grid import Size
from patchword.data.idx import read_idx
from patchword.data.images import Held, Images, Progress, decoded, fitted
from patchword.data.randomness import uniform

Part = Literal["train", "test"]
PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
_TEST_SHARE = 0.1  # of a set that brings no test part of its own


class Source(Protocol):
    """A set of examples; nothing is read before a part is asked for, so the test part stays unread until the end."""

    @property
    def name(self) -> str: ...

    def read(self, part: Part, size: Size, channels: int, progress: Progress | None = None) -> Images: ...


@dataclass(frozen=True)
class IdxSource:
    """Four files: images and labels, for training and for test."""

    name: str
    folder: Path
    classes: tuple[str, ...]
    origin: str

    def read(self, part: Part, size: Size, channels: int, progress: Progress | None = None) -> Images:  # noqa: ARG002
        stem = "train" if part == "train" else "t10k"
        pixels = read_idx(self._file(f"{stem}-images-idx3-ubyte"))
        labels = read_idx(self._file(f"{stem}-labels-idx1-ubyte")).long()
        if len(pixels) != len(labels):
            raise UserError(f"{self.folder}: {stem} images and labels differ in number", got=(len(pixels), len(labels)))
        return Images(self.name, self.origin, Held(fitted(pixels[:, None], size, channels)), labels, self.classes)

    def _file(self, name: str) -> Path:
        for path in (self.folder / f"{name}.gz", self.folder / name):
            if path.is_file():
                return path
        raise UserError(f"{self.folder} lacks {name}", expected=f"{name}.gz or {name}")


@dataclass(frozen=True)
class DigitsSource:
    """1,797 real 8 x 8 digits that scikit-learn carries; every fifth is for test."""

    name: str = "digits"

    def read(self, part: Part, size: Size, channels: int, progress: Progress | None = None) -> Images:  # noqa: ARG002
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise UserError("the digits come with scikit-learn", hint="pip install 'patchword[digits]'") from None
        bunch = load_digits()
        pixels = torch.from_numpy(bunch.images * (255 / 16)).round().to(torch.uint8)[:, None]
        labels = torch.from_numpy(bunch.target).long()
        chosen = (torch.arange(len(labels)) % 5 == 4) == (part == "test")
        held = Held(fitted(pixels[chosen], size, channels))
        return Images(self.name, "scikit-learn", held, labels[chosen], tuple(str(digit) for digit in range(10)))


@dataclass(frozen=True)
class ListedSource:
    """Picture files with a label each, and perhaps the part they belong to."""

    name: str
    rows: tuple[tuple[Path, str, str], ...]  # path, label, part ("" where none is given)

    def read(self, part: Part, size: Size, channels: int, progress: Progress | None = None) -> Images:
        classes = tuple(sorted({label for _, label, _ in self.rows}))
        labels = torch.tensor([classes.index(label) for _, label, _ in self.rows])
        chosen = self._part(part, labels).nonzero()[:, 0]
        paths = [self.rows[row][0] for row in chosen.tolist()]
        pixels = decoded(paths, size, channels, progress)
        return Images(self.name, f"{len(self.rows):,} picture files", pixels, labels[chosen], classes)

    def _part(self, part: Part, labels: Tensor) -> Tensor:
        if any(given for _, _, given in self.rows):
            in_test = torch.tensor([given in ("test", "val", "validation", "valid") for _, _, given in self.rows])
        else:
            in_test = held_out(labels, _TEST_SHARE, purpose=11)
        return in_test if part == "test" else ~in_test


def held_out(labels: Tensor, share: float, purpose: int = 12) -> Tensor:
    """True for `share` of each class, always the same samples whatever the seed of a run"""
    draw = uniform(0, 0, torch.arange(len(labels)), purpose)
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        members = (labels == label).nonzero()[:, 0]
        count = min(len(members) - 1, max(1, round(len(members) * share))) if share > 0 else 0
        chosen[members[draw[members].argsort()[:count]]] = True
    return chosen


def folder_source(folder: Path) -> ListedSource:
    """One sub-folder a class; or `train` and `test` sub-folders that hold those."""
    parts = {
        sub.name: sub for sub in folder.iterdir() if sub.is_dir() and sub.name in ("train", "test", "val", "valid")
    }
    if "train" in parts:
        rows = [(path, label, part) for part, sub in parts.items() for path, label in _classes(sub)]
    else:
        rows = [(path, label, "") for path, label in _classes(folder)]
    return ListedSource(folder.name, tuple(rows))


def _classes(folder: Path) -> Iterable[tuple[Path, str]]:
    classes = sorted(sub for sub in folder.iterdir() if sub.is_dir() and not sub.name.startswith("."))
    if not classes:
        raise UserError(f"{folder} has no class folders", expected="one sub-folder of pictures for each class")
    for sub in classes:
        files = sorted(path for path in sub.rglob("*") if path.suffix.lower() in PICTURES)
        if not files:
            kinds = " ".join(sorted(PICTURES))
            raise UserError(
                f"the class folder {sub} is empty", expected=f"pictures ({kinds})", hint="remove it or fill it"
            )
        yield from ((path, sub.name) for path in files)


def manifest_source(path: Path) -> ListedSource:
    """A CSV with a header, or JSON lines: the fields `path` and `label`, perhaps `split`; paths start at the file."""
    rows = []
    for line, record in _records(path):
        if missing := [field for field in ("path", "label") if not record.get(field)]:
            raise UserError(f"{path}, line {line}: no {missing[0]}", expected="path and label", got=list(record))
        picture = path.parent / str(record["path"])
        if not picture.is_file():
            raise UserError(f"{path}, line {line}: there is no picture {picture}")
        rows.append((picture, str(record["label"]), str(record.get("split") or "")))
    if not rows:
        raise UserError(f"{path} lists no pictures")
    return ListedSource(path.stem, tuple(rows))


def _records(path: Path) -> Iterable[tuple[int, dict[str, object]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if path.suffix == ".csv":
                reader = csv.DictReader(file)
                yield from ((reader.line_num, dict(record)) for record in reader)
            else:
                yield from ((number, json.loads(line)) for number, line in enumerate(file, 1) if line.strip())
    except (UnicodeDecodeError, json.JSONDecodeError, csv.Error) as error:
        raise UserError(f"cannot read {path}", expected="UTF-8 CSV or JSON lines", got=str(error)) from None
