"""The output folders of shards: one writer at a time; if a disk is full, the next folder is used."""

import fcntl
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from patchword.core.disk_space import disk_full, format_bytes, free_bytes
from patchword.core.errors import UserError
from patchword.core.files import make_folder, read_json, remove_temporary_files, write_json
from patchword.data.shards.manifest import MANIFEST, PLAN, read_manifest

SMALLEST = 10**6  # minimum size of a shard in bytes
_SPARE = 2**24  # bytes left free on every disk


@dataclass(frozen=True)
class Folders:
    """The output folders; the first one also has the manifest and the indexes."""

    paths: tuple[Path, ...]

    @property
    def first(self) -> Path:
        return self.paths[0]

    def names(self) -> tuple[str, ...]:
        """Return the folders as the manifest lists them; its own folder is ".", so that it can be moved."""
        return (".", *(str(path.absolute()) for path in self.paths[1:]))

    def find(self, file: str, size: int) -> bool:
        return any(path.is_file() and path.stat().st_size == size for path in (below / file for below in self.paths))

    def with_room(self, size: int) -> Path:
        """Return the first folder with enough free disk space."""
        for path in self.paths:
            if free_bytes(path) >= size + _SPARE:
                return path
        raise self._full(size)

    def check_disk_space(self, size: int) -> None:
        """Check the free space of all disks together, before anything is written."""
        disks = {path.stat().st_dev: free_bytes(path) for path in self.paths}
        if sum(disks.values()) < size:
            raise self._full(size)

    def _full(self, size: int) -> UserError:
        hint = f"add a folder on another disk: --out {self.first} --out FOLDER; complete shards are not written again"
        return disk_full("cannot write the shards", self.paths[-1], "too little space", size).with_hint(hint)


@contextmanager
def lock_folders(folders: Folders, key: str) -> Iterator[bool]:
    """Lock the folders, which must be empty or have shards of the same key. Yields True if the shards are finished."""
    for path in folders.paths:
        make_folder(path)
    with (folders.first / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"another process writes shards to {folders.first}", hint="wait until it ends") from None
        if (folders.first / MANIFEST).is_file():
            _same(read_manifest(folders.first).key, key, folders.first)
            yield True
            return
        planned = planned_key(folders)
        _same(planned or key, key, folders.first)
        for path in folders.paths:
            remove_temporary_files(path)
            if not planned and any(path.glob("shard-*")):
                raise UserError(f"{path} has shards of other data", hint="remove them, or choose another --out")
        yield False
        (folders.first / PLAN).unlink(missing_ok=True)


def planned_key(folders: Folders) -> str:
    """Return the key of checked but unfinished shards; empty if there is none."""
    path = folders.first / PLAN
    return str(read_json(path)["key"]) if path.is_file() else ""


def write_plan(folders: Folders, key: str) -> None:
    write_json(folders.first / PLAN, {"key": key})


def _same(found: str, key: str, folder: Path) -> None:
    if found != key:
        raise UserError(
            f"{folder} has shards of other data, or of another --size",
            hint="choose another --out, or remove it if it is not needed",
        )


@dataclass
class HashingFile:
    """A file that computes the digest and the size of the bytes written to it."""

    file: BinaryIO
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self.file.write(data)

    def tell(self) -> int:
        return self.size

    @property
    def sha256(self) -> str:
        return str(self.digest.hexdigest())


def parse_size(text: str) -> int:
    """Parse a size such as 256MB or 1.5GB into bytes."""
    for unit, factor in (("KB", 1e3), ("MB", 1e6), ("GB", 1e9), ("B", 1)):
        number = text.strip().upper().removesuffix(unit).strip()
        if text.strip().upper().endswith(unit) and number.replace(".", "", 1).isdecimal():
            size = int(float(number) * factor)
            if size >= SMALLEST:
                return size
            raise UserError("the shard size is too small", expected=f"{format_bytes(SMALLEST)} or more", got=text)
    raise UserError("invalid shard size", expected="e.g. 256MB or 1GB", got=text)


def key_of(parts: Sequence[object]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode(errors="surrogateescape"))
    return digest.hexdigest()
