"""One HTTP connection, with the limits that uvicorn does not have: silent and half-sent requests end."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from patchword.serving.secured_response import SECURITY_HEADERS


class BoundedConnection(HttpToolsProtocol):
    """Closes a connection whose request does not arrive in time, and connections beyond a maximum.

    uvicorn's own timer covers the time between two requests only: it keeps a connection that sends half a header, or
    nothing at all, forever.
    """

    header_seconds = 10.0  # from the first byte, or from the connection, to the end of the headers
    body_seconds = 30.0  # longer than the guard's deadline, which answers 408
    header_bytes = 64_000
    most_connections = 256

    _timer: asyncio.TimerHandle | None = None
    _head: int | None = 0  # bytes of headers so far; None while a body or a response is in progress

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            self._end("503 Service Unavailable", "too many connections")
        else:
            self._arm(self.header_seconds)

    def data_received(self, data: bytes) -> None:
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._head = 0
            self._arm(self.header_seconds)
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > self.header_bytes:
                self._end("431 Request Header Fields Too Large", "the headers are too long")

    def on_headers_complete(self) -> None:
        self._head = None
        self._arm(self.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._disarm()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, with the security headers."""
        self._end("400 Bad Request", msg)

    def _end(self, status: str, message: str) -> None:
        self._disarm()
        if self.transport.is_closing():
            return
        fields: dict[str, Any] = {
            **SECURITY_HEADERS,
            "cache-control": "no-store",
            "content-type": "text/plain; charset=utf-8",
            "content-length": len(message),
            "connection": "close",
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(f"HTTP/1.1 {status}\r\n{lines}\r\n{message}".encode())
        self.transport.close()

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self._out_of_time)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _out_of_time(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()
