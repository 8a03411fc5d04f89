"""Stopping when asked by Ctrl-C or SIGTERM: after the step while training, at once everywhere else."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TWICE_SECONDS = 1.0  # a launcher passes on what the terminal also sent: two signals this close are one wish
_PATIENCE_SECONDS = 3.0  # for threads that read, until the process ends without them
_asked: signal.Signals | None = None  # signals are the process's, so this is, too
_asked_at = 0.0


def stop_asked() -> bool:
    """Whether a signal has asked this process to stop."""
    return _asked is not None


def stop_code() -> int:
    """What a process that was asked to stop exits with: 130 after Ctrl-C, 143 after SIGTERM, as shells have it."""
    return 128 + (_asked or signal.SIGINT)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside, Ctrl-C and SIGTERM do not kill: they make the yielded question answer yes. The second one kills."""

    def ask(number: int, frame: FrameType | None) -> None:
        if _is_first(number):
            _tell("stopping: what is done is saved first; once more, and it stops at once")
        elif _is_second():
            _tell("stopped at once; the last checkpoint is whole, and the same command with --resume goes on from it")
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    with _handled(ask):
        yield stop_asked


@contextmanager
def breakable() -> Iterator[None]:
    """Inside, SIGTERM is as Ctrl-C: a KeyboardInterrupt, which leaves nothing half-written. Whatever still reads in
    other threads has a few seconds, then the process ends."""
    ended = threading.Event()

    def give_up(code: int) -> None:
        if not ended.wait(_PATIENCE_SECONDS):
            os._exit(code)

    def leave(number: int, frame: FrameType | None) -> None:
        if _is_first(number):
            threading.Thread(target=give_up, args=(128 + number,), daemon=True).start()
            raise KeyboardInterrupt
        if _is_second():
            os._exit(128 + number)

    try:
        with _handled(leave):
            yield
    finally:
        ended.set()


def _is_first(number: int) -> bool:
    global _asked, _asked_at
    if _asked is not None:
        return False
    _asked, _asked_at = signal.Signals(number), time.monotonic()
    return True


def _is_second() -> bool:
    return time.monotonic() - _asked_at > _TWICE_SECONDS


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    global _asked
    _asked = None
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _tell(text: str) -> None:
    """Straight to the terminal: a handler may stand in the middle of any print. A cursor that a bar hid comes back."""
    shown = "\x1b[?25h" if sys.stderr.isatty() else ""
    with suppress(OSError):  # nobody listens
        os.write(2, f"\n{shown}{text}\n".encode())
