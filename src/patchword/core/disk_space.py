"""Disk space: how much is free, how much is needed, and the error if it does not suffice."""

import errno
import re
import shutil
from pathlib import Path

from patchword.core.errors import RecoverableError, UserError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FAILING = {errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.ETIMEDOUT}  # of a disk or a network
_CHECK = "check that the disk is connected, may be written to and has no faults"


class DiskError(RecoverableError):
    """A disk failed, or is not available at present. The previous version of the file is unchanged."""


class DiskFullError(RecoverableError):
    """A disk or a quota is full. The previous version of the file is unchanged."""


def format_bytes(count: float) -> str:
    """Format a number of bytes, e.g. 1.3 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def free_bytes(path: Path) -> int:
    """Return the free space on the disk of a path that need not exist yet. Quotas are not taken into account."""
    return shutil.disk_usage(_existing_folder(path)).free


def is_full(error: BaseException) -> bool:
    """Return True if the error means a full disk or quota; safetensors gives the error number in its message only."""
    return _number(error) in _FULL


def is_disk_error(error: BaseException) -> bool:
    """Return True if the error is of the disk: it is full, fails, or is not available."""
    return _number(error) in _FULL | _FAILING


def _number(error: BaseException) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    number = re.search(r"os error (\d+)", str(error))
    return int(number[1]) if number else None


def disk_full(what: str, path: Path, reason: str, needed: int | None = None) -> DiskFullError:
    """Return the error for a full disk: what cannot be written, why, how much it needs and how much is free."""
    free = free_bytes(path)
    quota = "; a quota may allow less" if needed is not None and free >= needed else ""
    need = f"{format_bytes(needed)} needed, " if needed is not None else ""
    got = f"{reason}: {need}{format_bytes(free)} free on the disk of {_existing_folder(path).absolute()}{quota}"
    missing = f"make room for {format_bytes(max(needed - free, needed if quota else 0))} more there" if needed else ""
    return DiskFullError(what, got=got, hint=missing or "make room there")


def check_disk_space(what: str, path: Path, needed: int) -> None:
    """Raise an error if the disk has too little space, before anything is written."""
    if free_bytes(path) < needed:
        raise disk_full(what, path, "too little room", needed)


def write_error(what: str, path: Path, error: Exception, needed: int | None = None) -> UserError:
    """Return the error for a file that could not be written: a full disk, a failing one or another reason."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if is_full(error):
        return disk_full(what, path, reason, needed)
    return DiskError(what, got=reason, hint=_CHECK) if is_disk_error(error) else UserError(what, got=reason)


def _existing_folder(path: Path) -> Path:
    """Return the path, or the nearest parent folder that exists."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())
