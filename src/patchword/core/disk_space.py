"""Room on a disk: how much there is, how much is needed, and what is said when it is too little."""

import errno
import re
import shutil
from pathlib import Path

from patchword.core.errors import RecoverableError, UserError

_FULL = {errno.ENOSPC, errno.EDQUOT}


class DiskFullError(RecoverableError):
    """A disk, or a quota on it, has no room for a file. What was there before is as it was."""


def in_bytes(count: float) -> str:
    """e.g. 1.3 GB"""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def free_bytes(path: Path) -> int:
    """What this user may still write on the disk of a path, which need not be there yet. Quotas are not seen."""
    return shutil.disk_usage(_there(path)).free


def is_full(error: BaseException) -> bool:
    """Whether an error says that a disk or a quota is full; safetensors says it in words only."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    told = re.search(r"os error (\d+)", str(error))
    return told is not None and int(told[1]) in _FULL


def disk_full(what: str, path: Path, reason: str, needed: int | None = None) -> DiskFullError:
    """The error of a full disk: what cannot be written, why, how much it needs, how much is free, and where."""
    free = free_bytes(path)
    quota = "; a quota may allow less" if needed is not None and free >= needed else ""
    need = f"{in_bytes(needed)} needed, " if needed is not None else ""
    got = f"{reason}: {need}{in_bytes(free)} free on the disk of {_there(path).absolute()}{quota}"
    missing = f"make room for {in_bytes(max(needed - free, needed if quota else 0))} more there" if needed else ""
    return DiskFullError(what, got=got, hint=missing or "make room there")


def check_disk_space(what: str, path: Path, needed: int) -> None:
    """Refuses what would not fit, before anything of it is written."""
    if free_bytes(path) < needed:
        raise disk_full(what, path, "too little room", needed)


def unwritten(what: str, path: Path, error: Exception, needed: int | None = None) -> UserError:
    """The error of a file that could not be written, whatever the reason."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return disk_full(what, path, reason, needed) if is_full(error) else UserError(what, got=reason)


def _there(path: Path) -> Path:
    """the path, or the nearest folder above it that exists"""
    return next(place for place in (path, *path.absolute().parents) if place.exists())
