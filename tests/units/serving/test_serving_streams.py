"""Event streams that readers abandon: each one ends on the server, and others are answered."""

import asyncio
import socket
import threading
import time

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from patchword.serving.access import Access
from patchword.serving.connection import BoundedConnection
from patchword.serving.guard import Guard
from patchword.serving.server import bind, config_of


class Few(BoundedConnection):
    most_connections = 20


class Streams:
    """A server with a stream without end. open: how many readers it has now; begun: how many it had."""

    def __init__(self) -> None:
        self.open = self.begun = 0
        bound = bind("127.0.0.1", 0)
        self.access = Access(bound.getsockname()[1])
        routes = [Route("/", self.page), Route("/api/events", self.events)]
        self.server = uvicorn.Server(config_of(Guard(Starlette(routes=routes), self.access), Few))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [bound]})

    async def page(self, request):
        return PlainTextResponse("the page")

    async def events(self, request):
        async def lines():
            self.open, self.begun = self.open + 1, self.begun + 1
            try:
                while True:
                    yield b"data: 1\n\n"
                    await asyncio.sleep(0.02)
            finally:
                self.open -= 1

        return StreamingResponse(lines(), media_type="text/event-stream")

    def asked(self, path: str) -> socket.socket:
        """Send a request and return the connection with its first bytes unread."""
        opened = socket.create_connection(("127.0.0.1", self.access.port), timeout=10)
        host = f"Host: 127.0.0.1:{self.access.port}\r\nCookie: {self.access.cookie}={self.access.token}"
        opened.sendall(f"GET {path} HTTP/1.1\r\n{host}\r\n\r\n".encode())
        return opened


@pytest.fixture
def streams():
    streams = Streams()
    streams.thread.start()
    yield streams
    streams.server.should_exit = True
    streams.thread.join(20)
    assert not streams.thread.is_alive()


def wait_until(holds) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_streams_that_are_abandoned_end(streams):
    """Five times as many streams as connections are allowed, a few at a time, each left without a goodbye."""
    for _ in range(20):
        readers = [streams.asked("/api/events") for _ in range(5)]
        for reader in readers:
            assert reader.recv(15).startswith(b"HTTP/1.1 200")
        for reader in readers:
            reader.close()
        wait_until(lambda: streams.open == 0)
    assert streams.begun == 100
    page = streams.asked("/")
    assert page.recv(15).startswith(b"HTTP/1.1 200")
    page.close()


def test_readers_beyond_the_limit_are_refused_and_places_come_back(streams):
    readers = [streams.asked("/api/events") for _ in range(Few.most_connections + 10)]
    answers = [reader.recv(12) for reader in readers]
    assert answers.count(b"HTTP/1.1 503") >= 10
    assert answers.count(b"HTTP/1.1 200") <= Few.most_connections
    for reader in readers:
        reader.close()
    wait_until(lambda: streams.open == 0)
    again = streams.asked("/api/events")
    assert again.recv(12) == b"HTTP/1.1 200"
    again.close()


def test_a_server_with_an_open_stream_stops(streams):
    reader = streams.asked("/api/events")
    assert reader.recv(12) == b"HTTP/1.1 200"
    streams.server.should_exit = True
    streams.thread.join(20)
    assert not streams.thread.is_alive()
    reader.close()
