"""Runs a logger in a thread of its own, so that a slow or failing one neither stops nor slows the training."""

import queue
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Thread

from patchword.training.loggers.logger import LoggedRun, Logger, Outcome

_WAITING = 10_000  # calls that may wait for a slow logger; more are dropped
CLOSE_SECONDS = 30.0  # for the last calls, e.g. to send the report

Call = Callable[[], object]


class BackgroundLogger:
    """Passes the calls on in their order. The first error is reported once, and the logger is not called any more.

    report: receives one message at a time
    """

    def __init__(self, name: str, logger: Logger, report: Callable[[str], None]) -> None:
        self.name, self.logger, self.report = name, logger, report
        self.calls: queue.Queue[Call | None] = queue.Queue(_WAITING)
        self.thread = Thread(target=self._work, name=f"logger {name}", daemon=True)
        self.started = self.failed = False

    def start(self, run: LoggedRun) -> None:
        self.started = True
        self.thread.start()
        self._put(lambda: self._start(run))

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._put(lambda: self.logger.log(values, step))

    def result(self, values: Mapping[str, float], files: Sequence[Path]) -> None:
        self._put(lambda: self.logger.result(values, files))

    def close(self, outcome: Outcome) -> None:
        """Wait for the last calls, but not for long."""
        if not self.started or self.failed:
            return
        self._put(lambda: self.logger.close(outcome))
        self._put(None)
        self.thread.join(CLOSE_SECONDS)
        if self.thread.is_alive():
            self._fail(f"no answer within {CLOSE_SECONDS:g} s")

    def _start(self, run: LoggedRun) -> None:
        if place := self.logger.start(run):
            self.report(f"{self.name}: {place}")

    def _put(self, call: Call | None) -> None:
        if not self.started or self.failed:
            return
        try:
            self.calls.put_nowait(call)
        except queue.Full:
            self._fail("it is too slow")

    def _work(self) -> None:
        try:
            while (call := self.calls.get()) is not None and not self.failed:
                call()
        except BaseException as error:
            self._fail(f"{type(error).__name__}: {error}")

    def _fail(self, reason: str) -> None:
        if not self.failed:
            self.failed = True
            first = " ".join(reason.split())[:300]
            self.report(f"{self.name} does not record this run any more, and the run goes on: {first}")
