"""Keeps a server alive: a process answers, and its parent, which holds the socket, replaces it if it dies."""

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from types import FrameType

from patchword.core.errors import UserError
from patchword.serving.settings import ServeSettings

Report = Callable[[str], None]
Target = Callable[[ServeSettings, socket.socket, Report, Callable[[], None]], None]

_DEATHS, _WITHIN = 3, 60.0  # so many within so many seconds are too many
_READY = "ready"


class Supervisor:
    """Runs a server in a process of its own, until a signal. report: called with lines for the user

    deaths: so many within a minute are an error. The parent holds the socket: while a process is replaced, clients that
    connect wait. What the dead process was computing fails with its connections. The first signal is passed on, so that
    the process drains; the second ends it at once. If the parent dies, its process drains and ends, too.
    """

    def __init__(
        self, target: Target, settings: ServeSettings, bound: socket.socket, report: Report, deaths: int = _DEATHS
    ) -> None:
        self._target, self._settings, self._bound, self._report = target, settings, bound, report
        self._deaths = deaths
        self._context = multiprocessing.get_context("spawn")
        self._process: multiprocessing.process.BaseProcess | None = None
        self._signal = 0

    def run(self) -> None:
        deaths: list[float] = []
        with self._passing_signals():
            while True:
                code = self._run_once()
                if self._signal and code:
                    raise SystemExit(128 + self._signal)
                if self._signal or code == 0:
                    return
                reason = f"signal {-code}" if code < 0 else f"exit code {code}"
                deaths = [*(one for one in deaths if time.monotonic() - one < _WITHIN), time.monotonic()]
                if len(deaths) == self._deaths:
                    what = f"the process that answers died {len(deaths)} times within {_WITHIN:.0f} seconds"
                    raise UserError(what, got=reason, hint="its last lines above may tell why; is the memory enough?")
                self._report(
                    f"the process that answers died ({reason}), with what it was computing; another one starts"
                )

    def _run_once(self) -> int:
        """Run a process until it ends; return its exit code. An error of the user's before it is ready is raised."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(self._target, self._settings, self._bound, theirs))
        self._process = process
        process.start()
        theirs.close()
        if self._signal:  # it came before there was a process
            process.terminate()
        error = None
        with suppress(EOFError, ConnectionError):
            while (said := ours.recv()) == _READY:
                pass
            error = said
        process.join()
        if error is not None:
            raise error
        assert process.exitcode is not None, "it has ended"
        return process.exitcode

    @contextmanager
    def _passing_signals(self) -> Iterator[None]:
        before = {one: signal.signal(one, self._pass) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _pass(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        if self._process is not None and self._process.pid is not None and self._process.is_alive():
            self._process.terminate()
            self._bound.close()  # its own copy is closed when it has drained; then no process listens


def serve_settings(settings: ServeSettings, bound: socket.socket, report: Report, ready: Callable[[], None]) -> None:
    """Open the models and serve them; imports torch, which only the process that answers needs."""
    from patchword.serving.starting import serve_models

    serve_models(settings, bound, report, ready)


def _work(target: Target, settings: ServeSettings, bound: socket.socket, parent: Connection) -> None:
    """Serve in the process that answers; Ctrl-C in a terminal reaches the parent alone."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        target(settings, bound, report_line, lambda: parent.send(_READY))
    except UserError as error:
        parent.send(error)
        sys.exit(2)


def _end_with(parent: Connection) -> None:
    """Drain when the parent has died."""
    with suppress(EOFError, OSError):
        parent.recv()
    os.kill(os.getpid(), signal.SIGTERM)


def report_line(line: str) -> None:
    """Write a line for the user."""
    print(line, file=sys.stderr, flush=True)
