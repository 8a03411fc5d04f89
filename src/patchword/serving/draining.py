"""A server that drains: at the first signal it finishes what it has accepted, at the second it ends at once."""

import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol

import uvicorn

from patchword.serving.connection import BoundedConnection

log = logging.getLogger(__name__)


class Drainable(Protocol):
    """What a server drains."""

    @property
    def is_idle(self) -> bool: ...

    def drain(self) -> None: ...


class ServiceConnection(BoundedConnection):
    """A connection of a client of the API, of which there are more than of pages."""

    most_connections = 1_000


class DrainingServer(uvicorn.Server):
    """Refuses new requests from the first SIGTERM or Ctrl-C on, and ends when nothing is open, or after `seconds`.

    It still listens meanwhile, so that a client gets 503 instead of being cut off.
    """

    def __init__(
        self, config: uvicorn.Config, drained: Drainable, seconds: float, report: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._drained, self._seconds, self._report = drained, seconds, report
        self._signal = 0
        self._end: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Only take note: the loop drains in its next tick. uvicorn would raise the signal again at the end."""
        if self._signal:
            os._exit(128 + sig)
        self._signal = sig

    async def on_tick(self, counter: int) -> bool:
        if self._signal and self._end is None:
            self._end = time.monotonic() + self._seconds
            self._drained.drain()
            self._report("stopping: what was accepted is answered; a second signal ends at once")
        elif self._end is not None and (self._drained.is_idle or time.monotonic() >= self._end):
            self.should_exit = True
        return await super().on_tick(counter)


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def bound_server(
    config: uvicorn.Config,
    drained: Drainable,
    seconds: float,
    bound: socket.socket,
    report: Callable[[str], None] = _to_stderr,
) -> None:
    """Serve on a socket until a signal. report: called with a line for the user when it begins to drain"""
    with bound:
        DrainingServer(config, drained, seconds, report).run(sockets=[bound])
