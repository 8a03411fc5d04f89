"""Checkpoints: safetensors and JSON in a folder that appears whole or not at all.

A checkpoint is written under a hidden name, every file flushed to the disk and read back, its manifest of digests last,
and then renamed; only then may an older one go. The reader takes the newest whose manifest holds, and says why it
passes one over. Folders that are not named as ours are never touched.
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

from patchword.core.disk_space import check_disk_space, is_full, unwritten
from patchword.core.files import flush, make_folder
from patchword.core.safetensors_bytes import pieces, size_of
from patchword.training.checkpoint.manifest import MANIFEST, Digest, fault, manifest_of

Say = Callable[[str], None]
_TENSORS, _STATE = "tensors.safetensors", "state.json"
_OURS = re.compile(r"epoch-\d+(-batch-\d+)?")
_LITTER = re.compile(rf"\.{_OURS.pattern}(\.\d+)?\.(tmp|old)")
_BESIDE = 1 << 16  # bytes for the state, the manifest and the folder


@dataclass(frozen=True)
class Cost:
    """Of one save: bytes on the disk, seconds until they were there, and seconds that training waited for it."""

    bytes: int
    seconds: float
    waited: float


class Checkpoints:
    """The checkpoints of a run; the last `keep` that are known to be good are kept, and the one that is spared."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep
        self.cost: Cost | None = None
        self._bad: set[str] = set()
        self._outdated: set[str] = set()

    def save(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any], spared: str = "") -> None:
        """Writes one; names sort in the order of the run. spared: the name of one that is kept whatever comes."""
        began, final = time.monotonic(), self.folder / name
        if final.exists() and name not in self._outdated and not self._fault(final):
            return  # a place in a run has one outcome, so this is the same checkpoint
        make_folder(self.folder)
        self._clear_litter()
        self.check_disk_space(final, tensors)
        hidden = self.folder / f".{name}.{os.getpid()}.tmp"
        try:
            hidden.mkdir()
            self._fill(hidden, tensors, json.dumps(dict(state)))
            self._remove(final)  # a damaged one of the same place, or one of another way
            hidden.rename(final)
            flush(self.folder)
        except OSError as error:
            raise unwritten(f"cannot write the checkpoint {final}", final, error, _size(tensors)) from None
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        self._bad.discard(name)
        self._retire(final, spared)
        seconds = time.monotonic() - began
        self.cost = Cost(_size(tensors), seconds, seconds)

    def outdate(self, name: str) -> None:
        """The run goes another way from this place on: what was saved from there on goes once this place is saved anew.
        Until then it stays: a run that is killed goes on from there, and comes to where it turned once more."""
        self._outdated = {folder.name for folder in self.all() if folder.name >= name}

    def newest(self, say: Say) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest checkpoint that is whole."""
        for folder in reversed(self.all()):
            if wrong := self._fault(folder):
                say(f"{folder.name} is passed over: {wrong}")
                continue
            try:
                state: dict[str, Any] = json.loads((folder / _STATE).read_text())
                return load_file(folder / _TENSORS), state
            except (OSError, ValueError, SafetensorError) as error:
                self._bad.add(folder.name)
                say(f"{folder.name} is passed over: it cannot be read ({error})")
        return None

    def all(self) -> list[Path]:
        """in the order of the run"""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(path for path in found if _OURS.fullmatch(path.name) and path.is_dir())

    def check_disk_space(self, final: Path, tensors: Mapping[str, Tensor]) -> None:
        check_disk_space(f"cannot write the checkpoint {final}", final, _size(tensors))

    def check(self) -> None:
        """Raises what went wrong with a save since the last look; here it was raised at once."""

    def wait(self) -> None:
        """Returns when everything is on the disk; here it always is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """A run does not end before its last save; an error on the way is told before one of that save."""
        try:
            self.wait()
        except Exception:
            if error is None:
                raise

    def _fill(self, hidden: Path, tensors: Mapping[str, Tensor], state: str) -> None:
        """Writes the three files, and reads the large one back from the disk before anything relies on it."""
        digests = {_TENSORS: Digest(), _STATE: Digest()}
        with (hidden / _TENSORS).open("wb") as file:
            for piece in pieces(tensors):
                digests[_TENSORS].update(piece)
                file.write(piece)
        digests[_STATE].update(state.encode())
        (hidden / _STATE).write_bytes(state.encode())
        (hidden / MANIFEST).write_text(manifest_of(digests))
        for name in (_TENSORS, _STATE, MANIFEST):
            flush(hidden / name)
        _compare(hidden / _TENSORS, tensors)
        flush(hidden)

    def _fault(self, folder: Path) -> str:
        found = fault(folder, (_TENSORS, _STATE))
        (self._bad.add if found else self._bad.discard)(folder.name)
        return found

    def _retire(self, newest: Path, spared: str) -> None:
        """Older ones go, now that a newer one was read back; one that is known to be damaged does not count as kept."""
        for name in sorted(self._outdated - {newest.name}, reverse=True):
            self._remove(self.folder / name)
        self._outdated = set()
        older = [folder for folder in self.all() if folder.name < newest.name]
        good = [folder.name for folder in older if folder.name not in self._bad]
        kept = {*good[max(0, len(good) - (self.keep - 1)) :], spared}
        for folder in older:
            if folder.name not in kept:
                self._remove(folder)

    def _remove(self, folder: Path) -> None:
        """First renamed, so that no half of one is ever read; one that cannot be removed is left."""
        doomed = folder.with_name(f".{folder.name}.old")
        shutil.rmtree(doomed, ignore_errors=True)
        try:
            folder.rename(doomed)
        except OSError as error:
            if is_full(error):
                raise
        shutil.rmtree(doomed, ignore_errors=True)

    def _clear_litter(self) -> None:
        """what a kill left"""
        for path in self.folder.iterdir():
            if _LITTER.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)


def _size(tensors: Mapping[str, Tensor]) -> int:
    return size_of(tensors) + _BESIDE


def _compare(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """The file's bytes, asked from the disk rather than from memory where the system lets us, are the tensors'."""
    with path.open("rb") as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if not all(_same(file.read(len(piece)), piece) for piece in pieces(tensors)):
            raise OSError(f"{path.name} was read back other than it was written: the disk or its memory is faulty")


def _same(read: bytes, written: bytes | memoryview) -> bool:
    """With numpy, since Python compares one byte at a time here and lets nothing else run meanwhile."""
    return len(read) == len(written) and np.array_equal(np.frombuffer(read, np.uint8), np.frombuffer(written, np.uint8))
