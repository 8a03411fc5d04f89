"""Atomic file writing: a file is written completely or not at all; and the size and the removal of folders."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from patchword.core.disk_space import is_disk_error, write_error
from patchword.core.errors import UserError

_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")  # as whole_file names them


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`. It is renamed to `path` at the end, or removed after an error."""
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        flush(temporary)
        temporary.replace(path)
        flush(path.parent)
    except OSError as error:
        raise write_error(f"cannot write {path}", path, error) from None
    finally:
        if temporary.exists():
            temporary.unlink()


def remove_temporary_files(folder: Path) -> None:
    """Remove the temporary files that a killed process left behind, and no others."""
    for temporary in folder.glob(".*.tmp"):
        if _TEMPORARY.fullmatch(temporary.name) and temporary.is_file():
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; a file that is not valid JSON raises a UserError."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}", expected="a JSON file", got=str(error)) from None


def parse_json(text: str) -> Any:
    """Parse JSON strictly. Duplicate keys, lone surrogates and unlimited nesting raise a ValueError, because parsers
    differ in how they read them."""
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("brackets in brackets without end") from None
    if "\\ud" in text or "\\uD" in text:
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate cannot be encoded: a ValueError
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in found if names.count(name) > 1)[:80]!r} twice in one object")
    return found


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create the folder and its parents; a folder that cannot be written to raises a UserError."""
    try:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for place in missing:
            flush(place.parent)  # else a power cut can take the folder away with all that was flushed inside
    except OSError as error:
        if is_disk_error(error):
            raise write_error(f"cannot make the folder {folder}", folder, error) from None
        raise UserError(
            f"cannot make the folder {folder}", got=error.strerror, hint="choose a folder you may write to"
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"cannot write into {folder}", got="permission denied", hint="choose another folder")


def folder_bytes(folder: Path) -> int:
    """Return the sum of the sizes of all files below a folder; links are not followed."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).lstat().st_size
            except OSError:
                continue  # it was removed meanwhile
    return total


def remove_folder(folder: Path, hidden: str) -> None:
    """Rename a folder to a hidden name beside it, then remove it, so that no half of it keeps its name.

    Links inside are removed, and what they lead to stays. hidden: the other name; a folder left there is removed, too.
    """
    other = folder.with_name(hidden)
    shutil.rmtree(other, ignore_errors=True)
    folder.rename(other)
    flush(folder.parent)
    shutil.rmtree(other)
