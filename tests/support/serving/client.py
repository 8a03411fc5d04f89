"""Asks an ASGI application in one event loop, many requests at a time; a client can hang up."""

import asyncio
import json
from typing import Any

from support.lab.asgi import Response

HOST = "127.0.0.1:8000"


class Client:
    """headers: sent with every request; None leaves one out."""

    def __init__(self, app: Any, **headers: str | None) -> None:
        self.app, self.headers = app, {"host": HOST, **headers}

    def __call__(self, address: str, body: Any = None, **options: Any) -> Response:
        """Ask one question and wait for its answer."""
        return asyncio.run(self.ask(address, body, **options))

    async def ask(
        self,
        address: str,
        body: Any = None,
        kind: str = "application/json",
        method: str | None = None,
        gone: asyncio.Event | None = None,
        more: bool = False,
        **headers: str | None,
    ) -> Response:
        """body: bytes, or what becomes JSON. gone: set when the client hangs up. more: it sends half a body."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body is not None:
            sent = {"content-type": kind, "content-length": str(len(content)), **sent}
        messages = [{"type": "http.request", "body": content, "more_body": more}]
        hung_up, found = gone or asyncio.Event(), dict[str, Any](body=b"", headers=[])

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await hung_up.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                found.update(status=message["status"], headers=message["headers"])
            else:
                found["body"] += message.get("body", b"")

        await self.app(_scope(address, method or ("GET" if body is None else "POST"), sent), receive, send)
        return Response(
            found["status"], {name.decode(): value.decode() for name, value in found["headers"]}, found["body"]
        )


def _scope(address: str, method: str, headers: dict[str, str | None]) -> dict[str, Any]:
    path, _, query = address.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items() if value is not None],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
