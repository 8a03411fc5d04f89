"""Checkpoints: folders of safetensors and JSON that are written atomically.

A checkpoint is written under a hidden name; every file is flushed to the disk and the tensors are read back; the
manifest of digests is written last, and the folder is renamed. Only then is an older checkpoint removed. The reader
takes the newest checkpoint whose manifest matches, and logs why it skips one. Other folders are never touched.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from patchword.core.disk_space import check_disk_space, is_full, write_error
from patchword.core.files import flush, make_folder
from patchword.core.formats.safetensors_bytes import chunks, size_of
from patchword.core.tensor_files import rename_older_tensors
from patchword.training.checkpoint.manifest import MANIFEST, Digest, find_fault, manifest_of
from patchword.training.checkpoint.origin import Origin, origin_of

Log = Callable[[str], None]  # receives one message
_TENSORS, _STATE = "tensors.safetensors", "state.json"
CHECKPOINT_NAME = r"epoch-\d+(-batch-\d+)?"
_NAME = re.compile(CHECKPOINT_NAME)
_LEFTOVER = re.compile(rf"\.{CHECKPOINT_NAME}(\.\d+)?\.(tmp|old)")
_OVERHEAD = 1 << 16  # bytes for the state, the manifest and the folder


@dataclass(frozen=True)
class SaveCost:
    """The cost of one save: bytes written, seconds until they were on the disk, and seconds that training waited."""

    bytes: int
    seconds: float
    waited: float


class Checkpoints:
    """The checkpoints of a run. The last `keep` intact ones are kept, and the one of the best epoch.

    origin: of the run; it is written into each checkpoint, and one of another run is refused
    """

    def __init__(self, folder: Path, keep: int = 2, origin: Origin | None = None) -> None:
        self.folder, self.keep, self.origin = folder, keep, origin
        self.cost: SaveCost | None = None
        self._damaged: set[str] = set()
        self._outdated: set[str] = set()

    def save(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any], also_keep: str = "") -> None:
        """Write a checkpoint; names sort in the order of the run. also_keep: the name of one that is not removed."""
        began, final = time.monotonic(), self.folder / name
        if final.exists() and name not in self._outdated and self._is_own(final) and not self._fault(final):
            return  # a position in a run has one result, so this is the same checkpoint
        make_folder(self.folder)
        self._clear_leftovers()
        self.check_disk_space(final, tensors)
        hidden = self.folder / f".{name}.{os.getpid()}.tmp"
        try:
            hidden.mkdir()
            self._fill(hidden, tensors, json.dumps(dict(state)))
            self._remove(final)  # a damaged or outdated one of the same name
            hidden.rename(final)
            flush(self.folder)
        except OSError as error:
            raise write_error(f"cannot write the checkpoint {final}", final, error, _size(tensors)) from None
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        self._damaged.discard(name)
        self._remove_old(final, also_keep)
        seconds = time.monotonic() - began
        self.cost = SaveCost(_size(tensors), seconds, seconds)

    def mark_outdated(self, name: str) -> None:
        """Mark this checkpoint and later ones as outdated, since the run was rewound; the next save removes them.

        Until then they stay: a run that is killed before resumes from them and is rewound once more.
        """
        self._outdated = {folder.name for folder in self.all() if folder.name >= name}

    def newest(self, log: Log) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the tensors and the state of the newest intact checkpoint; log why newer ones are skipped."""
        if self.origin is not None:
            self.origin.check(self.all())
        for folder in reversed(self.all()):
            if fault := self._fault(folder):
                log(f"checkpoint {folder.name} is skipped: {fault}")
                continue
            try:
                state: dict[str, Any] = json.loads((folder / _STATE).read_text())
                return rename_older_tensors(load_file(folder / _TENSORS)), state
            except (OSError, ValueError, SafetensorError) as error:
                self._damaged.add(folder.name)
                log(f"checkpoint {folder.name} is skipped: it cannot be read ({error})")
        return None

    def all(self) -> list[Path]:
        """Return the folders of all checkpoints, in the order of the run."""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(path for path in found if _NAME.fullmatch(path.name) and path.is_dir())

    def check_disk_space(self, final: Path, tensors: Mapping[str, Tensor]) -> None:
        check_disk_space(f"cannot write the checkpoint {final}", final, _size(tensors))

    def check(self) -> None:
        """Raise the error of a background save, if there was one; a save of this class raises it immediately."""

    def wait(self) -> None:
        """Wait until the last save is on the disk; a save of this class returns only then."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, type_: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Wait for the last save. Its error is dropped if the run ends with an error of its own."""
        try:
            self.wait()
        except Exception:
            if error is None:
                raise

    def _fill(self, hidden: Path, tensors: Mapping[str, Tensor], state: str) -> None:
        """Write the three files, and compare the tensors with what the disk returns."""
        digests = {_TENSORS: Digest(), _STATE: Digest()}
        with (hidden / _TENSORS).open("wb") as file:
            for chunk in chunks(tensors):
                digests[_TENSORS].update(chunk)
                file.write(chunk)
        digests[_STATE].update(state.encode())
        (hidden / _STATE).write_bytes(state.encode())
        (hidden / MANIFEST).write_text(manifest_of(digests, self.origin.marks() if self.origin else None))
        for name in (_TENSORS, _STATE, MANIFEST):
            flush(hidden / name)
        _compare(hidden / _TENSORS, tensors)
        flush(hidden)

    def _is_own(self, folder: Path) -> bool:
        return self.origin is None or origin_of(folder) == self.origin.marks()

    def _fault(self, folder: Path) -> str:
        found = find_fault(folder, (_TENSORS, _STATE))
        (self._damaged.add if found else self._damaged.discard)(folder.name)
        return found

    def _remove_old(self, newest: Path, also_keep: str) -> None:
        """Remove outdated and older checkpoints; a damaged one does not count as kept."""
        for name in sorted(self._outdated - {newest.name}, reverse=True):
            self._remove(self.folder / name)
        self._outdated = set()
        older = [folder for folder in self.all() if folder.name < newest.name]
        intact = [folder.name for folder in older if folder.name not in self._damaged]
        kept = {*intact[max(0, len(intact) - (self.keep - 1)) :], also_keep}
        for folder in older:
            if folder.name not in kept:
                self._remove(folder)

    def _remove(self, folder: Path) -> None:
        """Rename, then remove, so that no incomplete checkpoint is ever read; one that cannot be renamed stays."""
        removed = folder.with_name(f".{folder.name}.old")
        shutil.rmtree(removed, ignore_errors=True)
        try:
            folder.rename(removed)
        except OSError as error:
            if is_full(error):
                raise
        shutil.rmtree(removed, ignore_errors=True)

    def _clear_leftovers(self) -> None:
        """Remove what a killed process left."""
        for path in self.folder.iterdir():
            if _LEFTOVER.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)


def _size(tensors: Mapping[str, Tensor]) -> int:
    return size_of(tensors) + _OVERHEAD


def _compare(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Check that the file has the bytes of the tensors, read from the disk instead of the page cache where possible."""
    with path.open("rb") as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if not all(_same(file.read(len(chunk)), chunk) for chunk in chunks(tensors)):
            raise OSError(f"{path.name} differs from what was written: the disk or the memory is faulty")


def _same(read: bytes, written: bytes | memoryview) -> bool:
    """Compare with numpy: Python compares byte by byte here and holds the GIL."""
    return len(read) == len(written) and np.array_equal(np.frombuffer(read, np.uint8), np.frombuffer(written, np.uint8))
