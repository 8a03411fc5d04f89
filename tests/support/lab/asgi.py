"""Calls an ASGI application without a server and without a client library."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True)
class Response:
    """The response to a call. headers: names in lower case; a name that is there twice has a list."""

    status: int
    headers: dict[str, Any]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    """Sends requests to an application. headers: sent with every request, unless a request has its own."""

    def __init__(self, app: Any, headers: dict[str, str]) -> None:
        self.app, self.headers = app, headers

    def __call__(
        self,
        address: str,
        method: str = "GET",
        headers: dict[str, str | None] | None = None,
        chunks: Iterable[bytes] = (),
        extra: Iterable[tuple[str, str]] = (),
    ) -> Response:
        """headers: None leaves a header out. chunks: the body, read lazily. extra: more headers, also repeated ones."""
        sent = {name: value for name, value in {**self.headers, **(headers or {})}.items() if value is not None}
        path, _, query = address.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in [*sent.items(), *extra]],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 1),
        }
        return asyncio.run(_call(self.app, scope, iter(chunks)))


async def _call(app: Any, scope: dict[str, Any], chunks: Any) -> Response:
    found: dict[str, Any] = {"body": b""}

    async def receive() -> dict[str, Any]:
        try:
            return {"type": "http.request", "body": next(chunks), "more_body": True}
        except StopIteration:
            return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            found["status"], found["headers"] = message["status"], message["headers"]
        else:
            found["body"] += message.get("body", b"")

    await app(scope, receive, send)
    headers: dict[str, Any] = {}
    for name, value in found["headers"]:
        key, text = name.decode().lower(), value.decode()
        headers[key] = text if key not in headers else [headers[key], text]
    return Response(found["status"], headers, found["body"])
