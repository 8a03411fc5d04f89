"""A folder of images as an input of any size: folders are read in the order of their names, one at a time."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.core.printable import path_text
from patchword.data.image.sources import IMAGE_SUFFIXES
from patchword.pipelines.bulk.rows import Row, Shard, Wanted, in_shards


class ImageFolder:
    """All images below a folder, in the order of their paths."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self._total = folder, 0, 0

    @property
    def fraction(self) -> float:
        return self.rows / max(1, self._total)

    def check(self) -> None:
        if next(_images(self.folder), None) is None:
            raise UserError(f"{self.folder} has no images", expected=" ".join(sorted(IMAGE_SUFFIXES)))

    def identity(self) -> dict[str, Any]:
        """The digest is of paths, sizes and times of the last change; the images themselves are not read for it."""
        digest, self._total = hashlib.sha256(), 0
        for path in _images(self.folder):
            status, self._total = path.stat(), self._total + 1
            digest.update(f"{path_text(path)} {status.st_size} {status.st_mtime_ns}\n".encode())
        return {"images": self._total, "sha256 of paths, sizes and times": digest.hexdigest()}

    def shards(self, size: int, wanted: Wanted) -> Iterator[Shard]:
        self.rows = 0
        yield from in_shards(self._rows(), size, wanted)

    def _rows(self) -> Iterator[Row]:
        for path in _images(self.folder):
            self.rows += 1
            yield Row({"path": path_text(path)}, path)


def _images(folder: Path) -> Iterator[Path]:
    """Yield the images in the order of `sorted`, which compares paths part by part."""
    with os.scandir(folder) as entries:
        found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_folder in found:
        path = folder / name
        if is_folder:
            yield from _images(path)
        elif path.suffix.lower() in IMAGE_SUFFIXES and path.is_file():
            yield path
