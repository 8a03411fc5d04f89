"""Records every call that changes the files below a folder, in this process, and can make one of them fail.

The calls of os and io are replaced, with safetensors' own writer, which does not use them. `Disk` applied to all events
must give the folder itself; a test compares both, so a way of writing that is missing here is found.
"""

import io
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any
from unittest.mock import patch

from safetensors import SafetensorError, serialize

from patchword.training.checkpoint.checkpoint import Checkpoints
from support.power.events import Acknowledged, Create, Event, MakeFolder, Rename, Sync, Truncate, Unlink, Write


class Recorder:
    """The events below a folder. fails: is asked before each call with its number and event; returns an errno or 0."""

    def __init__(self, root: Path, fails: Callable[[int, Event], int] = lambda number, event: 0) -> None:
        self.root, self.fails = root.resolve(), fails
        self.events: list[Event] = []
        self.calls = 0
        self.lock = RLock()

    def name(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Return the path inside the folder, None for one outside."""
        if isinstance(path, int):
            found = _open_path(path)
        else:
            found = Path(os.fsdecode(path)) if dir_fd is None else _open_path(dir_fd) / os.fsdecode(path)
        found = found.absolute()
        is_inside = found.is_relative_to(self.root) and not found.name.endswith(" (deleted)")
        return found.relative_to(self.root).as_posix() if is_inside else None

    def does(self, event: Event, call: Callable[[], Any]) -> Any:
        """Do a call that has this effect, unless it is to fail."""
        with self.lock:
            self.calls += 1
            if number := self.fails(self.calls, event):
                raise OSError(number, os.strerror(number), event.path)
            result = call()
            self.events.append(event)
            return result

    def open(self, file: Any, mode: str = "r", buffering: int = -1, *text: Any, **named: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wax+") or self.name(file) is None:
            return _OPEN(file, mode, buffering, *text, **named)
        raw = RecordedFile(self, file, mode.replace("b", "").replace("t", ""))
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *text, **named)


class RecordedFile(io.FileIO):
    """A file that is open for writing."""

    def __init__(self, recorder: Recorder, file: Any, mode: str) -> None:
        self.recorder, name = recorder, recorder.name(file)
        assert name is not None
        if not os.path.lexists(file):
            recorder.does(Create(name), lambda: super(RecordedFile, self).__init__(file, mode))
        elif "w" in mode:
            recorder.does(Truncate(name, 0), lambda: super(RecordedFile, self).__init__(file, mode))
        else:
            super().__init__(file, mode)
        self.appends = "a" in mode

    def write(self, data: Any) -> int:
        path, content = self.recorder.name(self.fileno()), bytes(data)
        if path is None:
            return int(super().write(data))
        offset = os.fstat(self.fileno()).st_size if self.appends else self.tell()
        return int(self.recorder.does(Write(path, offset, content), lambda: super(RecordedFile, self).write(data)))

    def truncate(self, size: int | None = None) -> int:
        path, length = self.recorder.name(self.fileno()), self.tell() if size is None else size
        if path is None:
            return int(super().truncate(length))
        return int(self.recorder.does(Truncate(path, length), lambda: super(RecordedFile, self).truncate(length)))


_OPEN, _OS_OPEN = io.open, os.open


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Record what this process does to the folder, and which saves return."""
    saved = Checkpoints.save

    def save(self: Checkpoints, name: str, *rest: Any, **named: Any) -> None:
        saved(self, name, *rest, **named)
        with recorder.lock:
            recorder.events.append(Acknowledged(name))

    changed: Mapping[str, Any] = {
        "io.open": recorder.open,
        "builtins.open": recorder.open,
        "os.open": _opened(recorder),
        "safetensors.torch.serialize_file": _serialize_file,
        **{f"os.{name}": _one(recorder, getattr(os, name), effect) for name, effect in _EFFECTS.items()},
        "os.fsync": _one(recorder, _no_fsync, Sync),
        **{f"os.{name}": _two(recorder, getattr(os, name)) for name in ("rename", "replace")},
    }
    patches = [patch(name, value) for name, value in changed.items()]
    with patch.object(Checkpoints, "save", save):
        for one in patches:
            one.start()
        try:
            yield recorder
        finally:
            for one in patches:
                one.stop()


_EFFECTS: Mapping[str, Callable[..., Event]] = {
    "unlink": Unlink,
    "remove": Unlink,
    "rmdir": Unlink,
    "mkdir": MakeFolder,
    "truncate": Truncate,
    "ftruncate": Truncate,
}


def _open_path(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _no_fsync(descriptor: int) -> None:
    """The disk of a test need not be waited for."""


@contextmanager
def without_fsync() -> Iterator[None]:
    """Wait for no disk, where power cuts are simulated."""
    with patch("os.fsync", _no_fsync):
        yield


def _one(recorder: Recorder, call: Callable[..., Any], effect: Callable[..., Event]) -> Callable[..., Any]:
    def done(path: Any, *rest: Any, dir_fd: int | None = None, **named: Any) -> Any:
        name = recorder.name(path, dir_fd)
        given = {**named, **({} if dir_fd is None else {"dir_fd": dir_fd})}
        if name is None or (effect is MakeFolder and os.path.lexists(path)):
            return call(path, *rest, **given)
        event = effect(name, *rest) if effect is Truncate else effect(name)
        return recorder.does(event, lambda: call(path, *rest, **given))

    return done


def _two(recorder: Recorder, call: Callable[..., Any]) -> Callable[..., Any]:
    def done(path: Any, target: Any, **named: Any) -> Any:
        names = recorder.name(path, named.get("src_dir_fd")), recorder.name(target, named.get("dst_dir_fd"))
        if names[0] is None or names[1] is None:
            assert names == (None, None), "a file that moves into the folder, or out of it"
            return call(path, target, **named)
        return recorder.does(Rename(names[0], names[1]), lambda: call(path, target, **named))

    return done


def _opened(recorder: Recorder) -> Callable[..., int]:
    def opened(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        assert not (flags & (os.O_WRONLY | os.O_RDWR) and recorder.name(path, named.get("dir_fd"))), "use open"
        return _OS_OPEN(path, flags, *rest, **named)

    return opened


def _serialize_file(tensors: Any, filename: Any, metadata: Any = None) -> None:
    content = serialize(tensors, metadata)
    try:
        Path(filename).write_bytes(content)
    except OSError as error:
        raise SafetensorError(f"I/O error: {error.strerror} (os error {error.errno})") from None


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return all files below a folder with their bytes, and all folders with None."""
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
        found[path.relative_to(folder).as_posix()] = None if is_folder else path.read_bytes()
    return found
