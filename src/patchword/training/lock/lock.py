"""Locks a run folder, so that one process uses it at a time.

The lock is an flock, which the system releases when the owner ends, however it ends; the file names the owner. Two
cases need more. A child process can outlive the owner and keep the flock: an owner on this machine that has ended is
ignored. And network file systems may not share locks between machines, or may keep the lock of a machine that failed:
every owner touches the file every few seconds, and the lock of an owner on another machine counts only while the file
is touched, whatever the state of flock and the clocks.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TextIO

from patchword.core.errors import UserError
from patchword.core.files import make_folder
from patchword.training.lock.lock_owner import LockOwner

_LOCK = ".lock"
TOUCH_SECONDS = 5.0
_HINT = "wait until it ends, or choose another --name for this run"


@contextmanager
def exclusive(folder: Path, hint: str = _HINT) -> Iterator[None]:
    """Hold the lock of a folder; raise an error if another process holds it. A lock without a live owner is free.

    hint: of that error
    """
    make_folder(folder)
    with _guarded(folder):
        file = _acquire(folder, hint)
        file.truncate(0)
        file.write(LockOwner.this().text())
        file.flush()
    stop = Event()
    toucher = Thread(target=_keep_touching, args=(file, stop), name="lock", daemon=True)
    toucher.start()
    try:
        yield
    finally:
        stop.set()
        toucher.join()
        file.truncate(0)  # released: the next process need not check whether the owner is alive
        file.close()


def check_in_place(folder: Path) -> None:
    """Raise an error if the lock file is gone: the locked folder was moved or removed."""
    try:
        (folder / _LOCK).stat()
    except (FileNotFoundError, NotADirectoryError):
        hint = f"move it back to {folder} and resume; without it, start a new run"
        raise UserError(f"{folder} was moved or removed while it was trained", hint=hint) from None
    except OSError:
        return  # the disk is unavailable for a moment


def check_unlocked(folder: Path, hint: str = _HINT) -> None:
    """Raise the same error before any work is done; creates and locks nothing."""
    if (folder / _LOCK).is_file() and os.access(folder / _LOCK, os.R_OK | os.W_OK):
        with _guarded(folder):
            _acquire(folder, hint).close()


def owner_of(folder: Path) -> LockOwner | None:
    """Return the process that holds the lock of a folder, by reading alone: nothing is locked or changed.

    An owner on another machine or in another container counts if it touched the file lately, by the clock of this
    machine: good enough for a list, while `exclusive` watches the file.
    """
    try:
        with (folder / _LOCK).open() as file:
            owner, touched = _read(file), os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    if owner is None or owner.is_gone():
        return None
    return owner if owner.is_alive() or time.time() - touched < 3 * TOUCH_SECONDS else None


def _acquire(folder: Path, hint: str = _HINT) -> TextIO:
    """Return the lock file, locked by this process."""
    path = folder / _LOCK
    try:
        file = path.open("a+")
    except IsADirectoryError:
        raise UserError(f"{path} is a folder", expected="the lock file of the run", hint="remove it") from None
    owner, free = _read(file), _try_flock(file)
    if _is_held(path, owner, free):
        file.close()
        raise _in_use(folder, owner, hint)
    if free is False:
        file.close()
        path.unlink(missing_ok=True)  # a child of the dead owner keeps the old file; it is not used any more
        file = path.open("a+")
        if _try_flock(file) is False:
            raise _in_use(folder, _read(file), hint)
    return file


def _is_held(path: Path, owner: LockOwner | None, free: bool | None) -> bool:
    """Return True if the owner holds the lock.

    free: the result of flock, which counts only for an owner on this machine.
    """
    if owner is None:
        return free is False
    if owner.is_elsewhere():
        return _is_touched(path)
    return not free and not owner.is_gone()


def _try_flock(file: TextIO) -> bool | None:
    """Return None on a file system without locks; there the named owner and the touching decide."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def _guarded(folder: Path) -> Iterator[None]:
    """Keep other processes that start at the same time from inspecting the lock, inside the `with` block."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _keep_touching(file: TextIO, stop: Event) -> None:
    while not stop.wait(TOUCH_SECONDS):
        try:
            os.utime(file.fileno())
        except OSError:
            continue  # the disk is unavailable for a moment


def _is_touched(path: Path) -> bool:
    """Return True if the file is touched within three periods; it is reopened since network disks cache its time."""
    first, end = _touch_time(path), time.monotonic() + 3 * TOUCH_SECONDS
    while time.monotonic() < end:
        if _touch_time(path) != first:
            return True
        time.sleep(TOUCH_SECONDS / 10)
    return False


def _touch_time(path: Path) -> int:
    with path.open() as file:
        return os.fstat(file.fileno()).st_mtime_ns


def _read(file: TextIO) -> LockOwner | None:
    file.seek(0)
    try:
        return LockOwner.read(file.read())
    except UnicodeDecodeError:
        return None


def _in_use(folder: Path, owner: LockOwner | None, hint: str) -> UserError:
    who = owner.describe() if owner else "an unknown process"
    return UserError(f"{folder} is in use by another run", got=who, hint=hint)
