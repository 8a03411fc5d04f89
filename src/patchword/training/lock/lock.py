"""One process a run folder.

The lock is the system's (flock), which it drops when the holder dies, however it dies; the file says who holds it. Two
cases need more. A process that the holder started may outlive it and keep the lock: a holder of this machine that has
ended is not believed. And shared disks may not pass locks between machines, or may keep those of a dead one: a holder
on another machine beats, it touches the file every few seconds, so that its silence or its beat is seen there, whatever
the lock and the clocks say.
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
BEAT_SECONDS = 5.0


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Refuses a second process; a lock whose holder is gone never blocks."""
    make_folder(folder)
    with _alone(folder):
        file = _taken(folder)
        file.truncate(0)
        file.write(LockOwner.this().text())
        file.flush()
    stop = Event()
    beat = Thread(target=_beat, args=(file, stop), name="lock", daemon=True)
    beat.start()
    try:
        yield
    finally:
        stop.set()
        beat.join()
        file.truncate(0)  # left in peace: nobody needs to ask whether the holder is still there
        file.close()


def refuse_second(folder: Path) -> None:
    """The same refusal early, for work that comes before the folder is written to; nothing is made or kept."""
    if (folder / _LOCK).is_file() and os.access(folder / _LOCK, os.R_OK | os.W_OK):
        with _alone(folder):
            _taken(folder).close()


def _taken(folder: Path) -> TextIO:
    """The lock file, locked by us."""
    path = folder / _LOCK
    file = path.open("a+")
    holder, free = _read(file), _locked(file)
    if _is_held(path, holder, free):
        file.close()
        raise _in_use(folder, holder)
    if free is False:
        file.close()
        path.unlink(missing_ok=True)  # the old file is kept by who outlived its holder; nobody looks at that now
        file = path.open("a+")
        if _locked(file) is False:
            raise _in_use(folder, _read(file))
    return file


def _is_held(path: Path, holder: LockOwner | None, free: bool | None) -> bool:
    """free: what the system says of the lock, which counts for a holder on this machine only"""
    if holder is None:
        return free is False
    if holder.is_elsewhere():
        return _beats(path)
    return not free and not holder.is_gone()


def _locked(file: TextIO) -> bool | None:
    """None on a disk without locks, as some network disks are: there only the file's words and its beat can tell."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Of several that start at once, one at a time looks at the lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a disk without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _beat(file: TextIO, stop: Event) -> None:
    while not stop.wait(BEAT_SECONDS):
        try:
            os.utime(file.fileno())
        except OSError:
            continue  # a disk that is away for a moment


def _beats(path: Path) -> bool:
    """Whether the file is touched while we look, for three beats at most; it is opened anew since disks remember."""
    first, end = _touched(path), time.monotonic() + 3 * BEAT_SECONDS
    while time.monotonic() < end:
        if _touched(path) != first:
            return True
        time.sleep(BEAT_SECONDS / 10)
    return False


def _touched(path: Path) -> int:
    with path.open() as file:
        return os.fstat(file.fileno()).st_mtime_ns


def _read(file: TextIO) -> LockOwner | None:
    file.seek(0)
    return LockOwner.read(file.read())


def _in_use(folder: Path, holder: LockOwner | None) -> UserError:
    who = holder.told() if holder else "process unknown"
    return UserError(f"{folder} is in use", got=who, hint="wait for it, or give this run another --name")
