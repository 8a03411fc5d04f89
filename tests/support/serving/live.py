"""An application that real clients reach over a socket."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from patchword.serving.draining import ServiceConnection
from patchword.serving.server import bind, config_of
from support.serving.client import HOST

PATIENT = 60


@contextmanager
def listening(app: Any) -> Iterator[int]:
    """Yield the port on which the application is served."""
    bound = bind("127.0.0.1", 0)
    port = bound.getsockname()[1]

    async def renamed(scope: Any, receive: Any, send: Any) -> None:  # the port is known only now
        given = dict(scope.get("headers", ()))
        if given.get(b"host") == f"127.0.0.1:{port}".encode():
            scope["headers"] = [*({**given, b"host": HOST.encode()}).items()]
        await app(scope, receive, send)

    server = uvicorn.Server(config_of(renamed, ServiceConnection))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(PATIENT)
