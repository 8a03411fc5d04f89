"""One process a run folder; and stopping politely when asked."""

import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from patchword.core.errors import UserError
from patchword.core.files import make_folder


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Refuses a second process. The system drops the lock when its holder dies, however it dies."""
    make_folder(folder)
    with (folder / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise UserError(
                f"{folder} is in use",
                got=f"process {file.read().strip() or 'unknown'}",
                hint="wait for it, or give this run another --name",
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside, Ctrl-C and SIGTERM do not kill: they make the yielded question answer yes."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # only the main thread hears signals
        return
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
