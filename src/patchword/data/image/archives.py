"""Images in a .zip or .tar archive, read without unpacking.

Nothing is written to the disk, so a malicious entry cannot write anywhere; such entries are still faults, and the
archive is refused. The path of an entry is written as if the archive were a folder: `archive.zip/cat/1.png`.
"""

import io
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from patchword.core.errors import UserError
from patchword.data.faults import report_fault

SUFFIXES = (".zip", ".tar")
PACKED = (".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz", ".zst", ".7z", ".rar")
ENTRIES = 2_000_000  # maximum number of entries
RATIO = 100  # maximum ratio of unpacked to packed size
SMALL = 2**20  # bytes up to which the ratio is not checked: a blank image packs well, too
LARGEST = 2**28  # maximum size of an entry in bytes
_BROKEN = (OSError, ValueError, EOFError, OverflowError, RuntimeError, zlib.error)
_ERRORS = (*_BROKEN, zipfile.BadZipFile, tarfile.TarError, zipfile.LargeZipFile)


class Archive(Protocol):
    """An archive: the names of its readable files, and the bytes of each."""

    @property
    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...


def entries(path: Path) -> list[PurePosixPath]:
    """List the files of an archive; malicious or broken entries are reported."""
    return [PurePosixPath(name) for name in _archive(path).names]


def opened(path: Path) -> BinaryIO:
    """Open a file or an entry of an archive."""
    try:
        return path.open("rb")
    except NotADirectoryError:
        for above in path.parents:
            if above.is_file() and above.suffix.lower() in SUFFIXES:
                return io.BytesIO(_entry(above, path.relative_to(above).as_posix()))
        raise


def refuse_packed(path: Path) -> None:
    """Raise an error for archives that must be unpacked as a whole, with a hint how to do that safely."""
    if path.is_file() and path.suffix.lower() in PACKED:
        inner = path.with_suffix(".tar") if path.suffix.lower() == ".tgz" else path.with_suffix("")
        tar = inner.suffix == ".tar" and path.suffix.lower() in (".gz", ".tgz")
        raise UserError(
            f"{path} is compressed as a whole, so its images cannot be read one by one",
            expected="a folder, a .zip or a plain .tar",
            hint=f"this command writes only {inner.name}: gunzip -c {path} > {inner}"
            if tar
            else "pack it again as .zip",
        )


def _entry(path: Path, name: str) -> bytes:
    try:
        return _archive(path).read(name)
    except KeyError:
        raise FileNotFoundError(f"{path} has no entry {name!r}") from None
    except _ERRORS as error:
        raise OSError(f"a damaged entry of {path.name}: {error}") from None


def _archive(path: Path) -> Archive:
    kept = _opened(path, path.stat().st_mtime_ns)
    if isinstance(kept, UserError):
        raise kept
    return kept


@lru_cache(maxsize=4)
def _opened(path: Path, changed: int) -> "Archive | UserError":
    try:
        return _Zip(path) if path.suffix.lower() == ".zip" else _Tar(path)
    except _ERRORS as error:
        return UserError(f"cannot read {path}", expected=f"a whole {path.suffix.lower()} file", got=str(error))


class _Zip:
    def __init__(self, path: Path) -> None:
        self.path, self._file = path, zipfile.ZipFile(path)

    @property
    def names(self) -> list[str]:
        infos = self._file.infolist()
        found = ((info.orig_filename, info.is_dir(), self._wrong(info)) for info in infos)
        return _checked(self.path, found, len(infos))

    def _wrong(self, info: zipfile.ZipInfo) -> str:
        if (kind := stat.S_IFMT(info.external_attr >> 16)) and kind not in (stat.S_IFREG, stat.S_IFDIR):
            return "is a link or a device"
        if info.flag_bits & 1:
            return "is encrypted"
        if info.file_size > max(SMALL, RATIO * info.compress_size):
            return f"expands from {info.compress_size:,} to {info.file_size:,} bytes, more than {RATIO} times"
        return _too_large(info.file_size)

    def read(self, name: str) -> bytes:
        with self._file.open(name) as entry:
            return entry.read(LARGEST + 1)


class _Tar:
    def __init__(self, path: Path) -> None:
        self.path = path
        with tarfile.open(path, "r:") as file:
            self._infos = [info for info, _ in zip(file, range(ENTRIES + 1), strict=False)]
        self._places = {info.name: (info.offset_data, info.size) for info in self._infos if info.isreg()}
        self._descriptor = os.open(path, os.O_RDONLY)
        self._end = path.stat().st_size

    @property
    def names(self) -> list[str]:
        found = ((info.name, info.isdir(), self._wrong(info)) for info in self._infos)
        return _checked(self.path, found, len(self._infos))

    def _wrong(self, info: tarfile.TarInfo) -> str:
        if not (info.isreg() or info.isdir()) or info.issparse():
            return "is a link, a device or a sparse file"
        if info.offset_data + info.size > self._end:
            return "extends past the end of the archive"
        return _too_large(info.size)

    def read(self, name: str) -> bytes:
        begin, size = self._places[name]
        return os.pread(self._descriptor, size, begin)  # pread has no shared file position, so threads can read at once


def _too_large(size: int) -> str:
    return f"has {size:,} bytes, more than {LARGEST:,}" if size > LARGEST else ""


def _checked(path: Path, found: Iterator[tuple[str, bool, str]], count: int) -> list[str]:
    """Return the names of valid files and report the others. found: name, is a folder, problem or ""."""
    if count > ENTRIES:
        raise UserError(f"{path} has too many entries", expected=f"at most {ENTRIES:,}", got=f"{count:,} or more")
    names: dict[str, None] = {}
    for name, is_folder, wrong in found:
        if problem := _wrong_name(name) or wrong or ("is a duplicate" if name in names else ""):
            hint = "do not unpack this archive; check its origin"
            report_fault(
                UserError(f"{path}, entry {name[:120]!r}: it {problem}", hint=hint),
                "a malicious or broken archive entry",
            )
        elif not is_folder:
            names[name] = None
    return list(names)


def _wrong_name(name: str) -> str:
    if not name or any(ord(letter) < 32 or "\ud800" <= letter <= "\udfff" for letter in name):
        return "has a name that is not text"
    if name.startswith("/") or re.match(r"[A-Za-z]:", name) or "\\" in name:
        return "has an absolute path"
    return "leads out of the archive" if ".." in name.split("/") else ""
