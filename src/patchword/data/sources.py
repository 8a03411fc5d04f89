"""Where examples come from: idx files, a folder of classes, a manifest, or the digits of scikit-learn."""

import csv
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.grid import Size
from patchword.data.idx import read_idx
from patchword.data.images import Images, decoded, held
from patchword.data.progress import Progress
from patchword.data.randomness import uniform

Part = Literal["train", "validation", "test"]
PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
_TEST_SHARE = 0.1  # of a set that brings no test part of its own
_PARTS: dict[str, Part] = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
}


class Source(Protocol):
    """A set of examples; nothing is read before a part is asked for, so the test part stays unread until the end."""

    @property
    def name(self) -> str: ...

    @property
    def brings_validation(self) -> bool:
        """whether it has a validation part of its own; otherwise some of the training part is set aside"""
        ...

    def read(self, part: Part, size: Size, channels: int, progress: Progress | None = None) -> Images: ...

    def check(self, size: Size, channels: int) -> None:
        """Finds damage in the files of the test part, before hours of training, and hands nothing out."""
        ...


@dataclass(frozen=True)
class IdxSource:
    """Four files: images and labels, for training and for test."""

    name: str
    folder: Path
    classes: tuple[str, ...]
    origin: str
    brings_validation: bool = False

    def read(self, part: Part, size: Size, channels: int, progress: Progress | None = None) -> Images:
        stem = "train" if part == "train" else "t10k"
        pixels = read_idx(self._file(f"{stem}-images-idx3-ubyte"))
        labels = read_idx(self._file(f"{stem}-labels-idx1-ubyte")).long()
        if pixels.ndim != 3 or labels.shape != pixels.shape[:1]:
            raise UserError(
                f"{self.folder}: the {stem} images and labels do not belong together",
                expected="images (count, height, width) and labels (count)",
                got=f"{tuple(pixels.shape)} and {tuple(labels.shape)}",
            )
        keys = torch.arange(len(labels))
        return Images(self.name, self.origin, held(pixels[:, None], size, channels), labels, self.classes, keys)

    def check(self, size: Size, channels: int) -> None:
        self.read("test", size, channels)

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

    def read(self, part: Part, size: Size, channels: int, progress: Progress | None = None) -> Images:
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            raise UserError("the digits come with scikit-learn", hint="pip install 'patchword[digits]'") from None
        bunch = load_digits()
        pixels = torch.from_numpy(bunch.images * (255 / 16)).round().to(torch.uint8)[:, None]
        labels = torch.from_numpy(bunch.target).long()
        chosen = (torch.arange(len(labels)) % 5 == 4) == (part == "test")
        found, names = held(pixels[chosen], size, channels), tuple(str(digit) for digit in range(10))
        return Images(self.name, "scikit-learn", found, labels[chosen], names, torch.arange(len(labels))[chosen])

    def check(self, size: Size, channels: int) -> None:
        """scikit-learn answers for its own files"""


@dataclass(frozen=True)
class ListedSource:
    """Picture files with a label each, and perhaps the part they belong to."""

    name: str
    rows: tuple[tuple[Path, str, Part | None], ...]  # path, label, part if one is given

    @property
    def brings_validation(self) -> bool:
        return {"validation", "test"} <= {part for _, _, part in self.rows}

    def read(self, part: Part, size: Size, channels: int, progress: Progress | None = None) -> Images:
        classes = tuple(sorted({label for _, label, _ in self.rows}))
        numbers = {label: number for number, label in enumerate(classes)}
        labels = torch.tensor([numbers[label] for _, label, _ in self.rows])
        chosen = self._part(part, labels).nonzero()[:, 0]
        paths = [self.rows[row][0] for row in chosen.tolist()]
        pixels = decoded(paths, size, channels, progress)
        origin = f"{len(self.rows):,} picture files"
        return Images(self.name, origin, pixels, labels[chosen], classes, self._keys()[chosen])

    def check(self, size: Size, channels: int) -> None:
        self.read("test", size, channels)

    def _keys(self) -> Tensor:
        """From the names of the files, so that a new picture does not move the others from part to part."""
        root = os.path.commonpath([path.parent for path, _, _ in self.rows])
        names = (os.path.relpath(path, root) for path, _, _ in self.rows)
        digests = (hashlib.sha256(os.fsencode(name)).digest() for name in names)
        return torch.tensor([int.from_bytes(digest[:7], "big") for digest in digests])

    def _part(self, part: Part, labels: Tensor) -> Tensor:
        """True for the samples of a part. A lone validation part serves as test; without either, some are held out."""
        given = [given or "train" for _, _, given in self.rows]
        last: Part = "test" if "test" in given else "validation"
        if last in given:
            in_test = torch.tensor([part == last for part in given])
        else:
            in_test = held_out(labels, self._keys(), _TEST_SHARE, purpose=11)
        in_validation = torch.tensor([self.brings_validation and part == "validation" for part in given])
        in_train = ~in_test & ~in_validation
        for name, chosen in (("training", in_train), ("test", in_test)):
            if not chosen.any():
                raise UserError(
                    f"{self.name} has no {name} pictures (train and test parts are both needed)",
                    hint="give each class more pictures, or say which part each belongs to",
                )
        return {"train": in_train, "validation": in_validation, "test": in_test}[part]


def held_out(labels: Tensor, keys: Tensor, share: float, purpose: int = 12) -> Tensor:
    """True for `share` of each class, always the same samples whatever the seed of a run"""
    draw = uniform(0, 0, keys, purpose)
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        members = (labels == label).nonzero()[:, 0]
        count = min(len(members) - 1, max(1, round(len(members) * share))) if share > 0 else 0
        chosen[members[draw[members].argsort(stable=True)[:count]]] = True
    return chosen


def folder_source(folder: Path) -> ListedSource:
    """One sub-folder a class; or `train`, `test` and perhaps `validation` sub-folders that hold those."""
    if not any(sub.is_dir() for sub in (folder / "train").glob("*")):  # else `train` is a class, of railways
        return ListedSource(folder.name, tuple((path, label, None) for path, label in _classes(folder)))
    parts = sorted(sub for sub in folder.iterdir() if sub.is_dir() and sub.name in _PARTS)
    if len({_PARTS[sub.name] for sub in parts}) < len(parts):
        raise UserError(
            f"{folder} has a part twice", expected="train, validation, test", got=[sub.name for sub in parts]
        )
    rows = tuple((path, label, _PARTS[sub.name]) for sub in parts for path, label in _classes(sub))
    return ListedSource(folder.name, rows)


def _classes(folder: Path) -> Iterable[tuple[Path, str]]:
    classes = sorted(sub for sub in folder.iterdir() if sub.is_dir() and not sub.name.startswith("."))
    if not classes:
        raise UserError(f"{folder} has no class folders", expected="one sub-folder of pictures for each class")
    for sub in classes:
        if any("\ud800" <= letter <= "\udfff" for letter in sub.name):  # how Python reads bytes that are no UTF-8
            raise UserError(f"the name of the class folder {str(sub)!r} is not UTF-8", hint="rename it")
        files = sorted(path for path in sub.rglob("*") if path.suffix.lower() in PICTURES)
        if not files:
            kinds = " ".join(sorted(PICTURES))
            raise UserError(
                f"the class folder {sub} is empty", expected=f"pictures ({kinds})", hint="remove or fill it"
            )
        yield from ((path, sub.name) for path in files)


def manifest_source(path: Path) -> ListedSource:
    """A CSV with a header, or JSON lines: the fields `path` and `label`, perhaps `split`; paths start at the file."""
    rows: list[tuple[Path, str, Part | None]] = []
    for line, record in _records(path):
        if missing := [field for field in ("path", "label") if record.get(field) in (None, "")]:
            raise UserError(f"{path}, line {line}: no {missing[0]}", expected="path and label", got=list(record))
        picture = path.parent / str(record["path"])
        if not picture.is_file():
            raise UserError(f"{path}, line {line}: there is no picture {picture}")
        split = str(record.get("split") or "train").strip().lower()
        if split not in _PARTS:
            raise UserError(f"{path}, line {line}: split", expected="train, validation or test", got=record["split"])
        rows.append((picture, str(record["label"]), _PARTS[split] if record.get("split") else None))
    if not rows:
        raise UserError(f"{path} lists no pictures")
    return ListedSource(path.stem, tuple(rows))


def _records(path: Path) -> Iterable[tuple[int, dict[str, object]]]:
    """Each record with the number of its line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if path.suffix.lower() == ".csv":
                reader = csv.DictReader(file)
                yield from ((reader.line_num, dict(record)) for record in reader)
            else:
                yield from (
                    (number, _json_record(path, number, line)) for number, line in enumerate(file, 1) if line.strip()
                )
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot read {path}", expected="UTF-8 CSV or JSON lines", got=str(error)) from None


def _json_record(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"{path}, line {number}: not JSON", got=str(error)) from None
    if not isinstance(record, dict):
        raise UserError(
            f"{path}, line {number}: not a record", expected='{"path": ..., "label": ...}', got=line.strip()
        )
    return record
