"""Stops on Ctrl-C, SIGTERM or a closed terminal: after the current step while training, at once everywhere else."""

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TWICE_SECONDS = 1.0  # two signals this close are one: a launcher forwards what the terminal also sent
_PATIENCE_SECONDS = 3.0  # for threads that still read; then the process exits
_SOON_SECONDS = 0.02
_received: signal.Signals | None = None  # global, since signals belong to the process
_received_at = 0.0


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a run; not SIGHUP under nohup, which goes on when its terminal closes."""
    return _SIGNALS if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else _SIGNALS[:2]


def stop_requested() -> bool:
    """Return True if this process received a signal to stop."""
    return _received is not None


def stop_exit_code() -> int:
    """Return the exit code of a stopped process as in shells: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
    return 128 + (_received or signal.SIGINT)


def end_process(number: int) -> None:
    """End this process as the signal does by default; nothing is saved."""
    _print("stopped immediately: the last checkpoint is intact. To resume from it, add --resume to the command")
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def raise_interrupt(number: int) -> None:
    """Raise KeyboardInterrupt: for a run inside a Python program or a notebook, which must not end with it."""
    raise KeyboardInterrupt


@contextmanager
def interruptible(on_second: Callable[[int], None] = end_process) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True after the first signal to stop. on_second: called with the second one."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if _is_first(number):
            _print("stopping: the run is saved first. Send the signal again to stop immediately without saving")
        elif _is_second():
            on_second(number)

    with _handled(on_signal):
        yield stop_requested


@contextmanager
def breakable() -> Iterator[None]:
    """Make every signal to stop raise KeyboardInterrupt inside the `with` block; no file is left half-written.

    Threads that still read have a few seconds, then the process exits.
    """
    left, lost = threading.Event(), False

    def exit_later(code: int) -> None:
        if not left.wait(_PATIENCE_SECONDS):
            os._exit(code)

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal lost
        is_first, was_lost, lost = _is_first(number), lost, False
        if is_first:
            threading.Thread(target=exit_later, args=(128 + number,), daemon=True).start()
        if is_first or was_lost:
            raise KeyboardInterrupt
        if _is_second():
            os._exit(128 + number)

    def on_unraisable(found: "sys.UnraisableHookArgs") -> None:
        """Raise a KeyboardInterrupt again that Python drops, as inside a callback of the garbage collector."""
        nonlocal lost
        if found.exc_type is not KeyboardInterrupt or _received is None:
            before(found)
            return
        lost = True
        threading.Timer(_SOON_SECONDS, _thread.interrupt_main, (_received,)).start()  # after this call has ended

    before, sys.unraisablehook = sys.unraisablehook, on_unraisable
    try:
        with _handled(on_signal):
            yield
    finally:
        left.set()
        sys.unraisablehook = before


def _is_first(number: int) -> bool:
    global _received, _received_at
    if _received is not None:
        return False
    _received, _received_at = signal.Signals(number), time.monotonic()
    return True


def _is_second() -> bool:
    return time.monotonic() - _received_at > _TWICE_SECONDS


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    global _received
    _received = None
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    before = {number: signal.signal(number, handler) for number in stop_signals()}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _print(text: str) -> None:
    """Write directly to stderr: a signal can interrupt any print. Shows the cursor that a progress bar has hidden."""
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
    with suppress(OSError):  # stderr is closed
        os.write(2, f"\n{cursor}{text}\n".encode())
