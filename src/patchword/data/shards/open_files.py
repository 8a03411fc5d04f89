"""Random access to many files, of which only a few are open at a time."""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock

from patchword.core.errors import RecoverableError

TOGETHER = 16  # shards whose samples are shuffled together
OPEN = 2 * TOGETHER  # files kept open: a batch may end one group of shards and begin the next


class OpenFile:
    """An open file, which is closed when the last reference to it is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise _read_error(path, error) from None

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def read(self, begin: int, length: int) -> bytes:
        try:
            found = os.pread(
                self._descriptor, length, begin
            )  # pread has no shared file position, so threads can read at once
            if len(found) < length:
                raise OSError(f"it ends before byte {begin + length:,}")
        except OSError as error:
            raise _read_error(self.path, error) from None
        return found


def _read_error(path: Path, error: OSError) -> RecoverableError:
    hint = "check that its disk is mounted and that the file is complete (`patchword data check` reads everything)"
    return RecoverableError(f"cannot read the shard {path}", got=error.strerror or str(error), hint=hint)


class OpenFiles:
    """A cache of open files: the last `OPEN` used ones and those of a batch. find: index -> path."""

    def __init__(self, find: Callable[[int], Path]) -> None:
        self.find = find
        self._open: OrderedDict[int, OpenFile] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def take(self, numbers: Iterable[int]) -> dict[int, OpenFile]:
        with self._lock:
            found = {number: self._opened(number) for number in numbers}
            while len(self._open) > OPEN:
                self._open.popitem(last=False)
            return found

    def close(self) -> None:
        with self._lock:
            self._open.clear()

    def _opened(self, number: int) -> OpenFile:
        if number not in self._open:
            self._open[number] = OpenFile(self.find(number))
        self._open.move_to_end(number)
        return self._open[number]
