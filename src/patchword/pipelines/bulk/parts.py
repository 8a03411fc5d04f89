"""The folder of finished shards beside an output: a killed call goes on from it, and it is removed at the end.

manifest.json says what the call is; shards.jsonl has one line per finished shard, written after its file is flushed.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from patchword.core.disk_space import write_error
from patchword.core.errors import UserError
from patchword.core.files import flush, read_json, remove_folder, remove_temporary_files, whole_file, write_json
from patchword.training.lock import lock

_FORMAT = 1


@dataclass(frozen=True)
class Finished:
    """What is known of a finished shard. broken: rows without an answer; first_error: of the first of them."""

    number: int
    rows: int
    broken: int
    truncated: int
    first_error: str
    columns: tuple[str, ...]
    bytes: int
    sha256: str

    @classmethod
    def parse(cls, line: str) -> Self:
        values = json.loads(line)
        return cls(**{**values, "columns": tuple(values["columns"])})


@dataclass
class Parts:
    """The shards of one output."""

    folder: Path
    finished: dict[int, Finished] = field(default_factory=dict)
    _columns: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)  # equal ones are kept once

    @classmethod
    @contextmanager
    def open(
        cls, output: Path, identity: Mapping[str, Any], versions: Mapping[str, Any]
    ) -> "Iterator[tuple[Self, bool]]":
        """Begin, or go on with, the shards of an output. Yield them, and whether the versions are the same.

        Shards of other options, another input or another model are refused.
        """
        folder = output.with_name(f"{output.name}.parts")
        check_same(folder, identity)
        with lock.exclusive(folder, "wait until it ends, or choose another --out"):
            check_same(folder, identity)
            remove_temporary_files(folder)
            shutil.rmtree(
                folder.with_name(_removed(folder)), ignore_errors=True
            )  # of a call that was killed at its end
            for left in output.parent.glob(f".{glob_text(output.name)}.*.tmp"):
                left.unlink()
            manifest, same = folder / "manifest.json", True
            if manifest.is_file():
                same = read_json(manifest)["versions"] == dict(versions)
            else:
                write_json(manifest, {"format": _FORMAT, "identity": identity, "versions": versions})
            parts = cls(folder)
            parts._read_finished()
            yield parts, same

    def add(self, shard: Finished, content: bytes) -> None:
        """Write a shard, then its line."""
        with whole_file(self.path(shard.number)) as temporary:
            temporary.write_bytes(content)
        line = json.dumps(asdict(shard), ensure_ascii=False) + "\n"
        try:
            with self._list.open("ab") as file:
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise write_error(f"cannot write {self._list}", self._list, error) from None
        self._keep(shard)

    def check_content(self) -> None:
        """Compare the shards with their digests; one that has changed is computed again by the next call."""
        for shard in self.finished.values():
            with self.path(shard.number).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == shard.sha256:
                    continue
            self.path(shard.number).unlink()
            hint = "it is removed; repeat the call, which computes it again"
            raise UserError(f"{self.path(shard.number)} has changed since it was written", hint=hint)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:08}"

    def remove(self) -> None:
        remove_folder(self.folder, _removed(self.folder))

    @property
    def _list(self) -> Path:
        return self.folder / "shards.jsonl"

    def _keep(self, shard: Finished) -> None:
        self.finished[shard.number] = replace(shard, columns=self._columns.setdefault(shard.columns, shard.columns))

    def _read_finished(self) -> None:
        """Read the list, and drop lines that are not whole or whose file is not."""
        lines = self._list.read_bytes().split(b"\n") if self._list.is_file() else [b""]
        kept: list[bytes] = []
        for line in lines[:-1]:
            try:
                shard = Finished.parse(line.decode())
            except (ValueError, TypeError, KeyError):
                continue
            path = self.path(shard.number)
            if path.is_file() and path.stat().st_size == shard.bytes:
                self._keep(shard)
                kept.append(line + b"\n")
        if b"".join(kept) != b"\n".join(lines):
            with whole_file(self._list) as temporary:
                temporary.write_bytes(b"".join(kept))
            flush(self.folder)


def check_same(folder: Path, identity: Mapping[str, Any]) -> None:
    """Raise an error if the folder holds the shards of another call."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file", expected="a folder for shards, which is made")
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        strange = [one.name for one in folder.iterdir() if not one.name.startswith(".")] if folder.is_dir() else []
        if strange:
            hint = "choose another --out"
            raise UserError(f"{folder} holds other files, such as {sorted(strange)[0]}", hint=hint)
        return
    begun = read_json(manifest)
    known = begun.get("identity", {}) if isinstance(begun, dict) and begun.get("format") == _FORMAT else {}
    now = json.loads(json.dumps(identity))
    differing = [name for name in dict.fromkeys([*known, *now]) if known.get(name) != now.get(name)]
    if differing:
        was = ", ".join(f"{name} {_shown(known.get(name))}" for name in differing)
        got = ", ".join(f"{name} {_shown(now.get(name))}" for name in differing)
        hint = f"repeat the call as it was begun; or remove the folder to start again: rm -r {folder}"
        raise UserError(f"{folder} was begun by another call", expected=was, got=got, hint=hint)


def _removed(folder: Path) -> str:
    return f".{folder.name}.removed"


def glob_text(name: str) -> str:
    """Return a pattern that matches exactly this name."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _shown(value: Any) -> str:
    text = str(value)
    return text[:16] if len(text) == 64 and not set(text) - set("0123456789abcdef") else text or '""'
