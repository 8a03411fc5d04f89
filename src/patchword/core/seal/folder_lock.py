"""A lock of a folder for the moment in which its files and its seal are replaced, or compared and read.

It is an flock of the folder itself, so a killed process leaves nothing. Where the system has none, nothing is locked.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # a module, which mypy allows no None for


@contextmanager
def locked(folder: Path, shared: bool = False) -> Iterator[None]:
    """Wait for the lock and hold it. shared: with other readers. Not to be taken twice by one thread."""
    descriptor = _locked(folder, shared) if fcntl is not None else None
    try:
        yield
    finally:
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough if a child process was forked meanwhile
            os.close(descriptor)


def _locked(folder: Path, shared: bool) -> int | None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
    except OSError:  # a file system without flock, or one that locks files only
        os.close(descriptor)
        return None
    return descriptor
