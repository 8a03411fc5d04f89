"""Images as contents of shards: plain .tar files, each with an index of the positions of its images.

Images are written split by split, in the order of a hash of their names, so every shard is a random sample of the data
set. Files are copied unchanged, and the same files give the same bytes.
"""

import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from patchword.core.errors import UserError
from patchword.data.image.archives import opened
from patchword.data.image.sources import ImageSource, ListedSource
from patchword.data.progress import Progress
from patchword.data.shards.folders import HashingFile, key_of
from patchword.data.shards.writing import Sample

_ORDER = (None, "train", "validation", "test")
_BLOCK = tarfile.BLOCKSIZE


@dataclass(frozen=True)
class ImageEntry:
    path: Path
    name: str
    label: int
    key: int


@dataclass(frozen=True, eq=False)
class ImageContents:
    """The images of a folder, an archive or a table, to be written to shards."""

    source: ListedSource
    kind: Literal["images"] = "images"
    suffix: str = "tar"

    @property
    def name(self) -> str:
        return self.source.name

    @cached_property
    def classes(self) -> tuple[str, ...]:
        return tuple(sorted({label for _, label, _ in self.source.rows}))

    @property
    def total(self) -> int:
        return len(self.source.rows)

    @property
    def bytes(self) -> int:
        """Estimate of the size, with tar headers and padding; of an archive, its own size."""
        return sum({path: size for path, size, _ in self._states}.values()) + self.total * _BLOCK * 3 // 2

    def key(self) -> str:
        rows = ((name, *row[1:]) for name, row in zip(self.source.names(), self.source.rows, strict=True))
        # "pictures" stays: with another word, unfinished shards of earlier versions could not be resumed.
        return key_of(["pictures", *zip(rows, (state[1:] for state in self._states), strict=True)])

    def check(self, progress: Progress) -> None:
        self.source.examine(progress)

    def samples(self) -> Iterator[Sample]:
        numbers = {label: number for number, label in enumerate(self.classes)}
        keys, names = self.source.keys().tolist(), self.source.names()
        rows = self.source.rows
        ordered = sorted(range(len(rows)), key=lambda row: (_ORDER.index(rows[row][2]), keys[row]))
        for done, row in enumerate(ordered, 1):
            path, label, part = rows[row]
            yield Sample(part, ImageEntry(path, names[row], numbers[label], keys[row]), done)

    def open_writer(self, file: HashingFile) -> "TarWriter":
        return TarWriter(file)

    @cached_property
    def _states(self) -> list[tuple[Path, int, int]]:
        """The file, size and modification time of each image."""
        return [_state(path) for path, _, _ in self.source.rows]


def image_contents(source: ImageSource, where: str) -> ImageContents:
    if not isinstance(source, ListedSource):
        raise UserError(
            f"{where} cannot be written as shards",
            expected="a folder of classes, a .zip or .tar of one, or a .csv or .jsonl with path and label",
            hint="data that is already in shards, or that fits in memory, needs none",
        )
    return ImageContents(source)


def _state(path: Path) -> tuple[Path, int, int]:
    file = path if path.is_file() else next((above for above in path.parents if above.is_file()), path)
    state = file.stat()
    return file, state.st_size, state.st_mtime_ns


@dataclass
class TarWriter:
    """Writes a .tar with names and contents only, without times or owners."""

    file: HashingFile
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)  # begin, length, label, key

    def __post_init__(self) -> None:
        file: Any = self.file  # tarfile only calls write and tell
        self._tar = tarfile.TarFile(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, content: ImageEntry) -> None:
        try:
            with opened(content.path) as image:
                data = image.read()
        except OSError as error:
            got = error.strerror or str(error)
            raise UserError(f"cannot read the image {content.path}", got=got, hint="try again") from None
        info = tarfile.TarInfo(os.fsencode(content.name).decode(errors="replace"))
        info.size = len(data)
        self._tar.addfile(info, io.BytesIO(data))
        begin = self._tar.offset - -(-len(data) // _BLOCK) * _BLOCK
        self.rows.append((begin, len(data), content.label, content.key))

    def close(self) -> dict[str, Any]:
        self._tar.close()
        begin, length, label, key = np.array(self.rows, np.int64).T
        return {
            "begin": begin.copy(),
            "length": length.astype(np.int32),
            "label": label.astype(np.int32),
            "key": key.copy(),
        }
