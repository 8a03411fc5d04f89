"""The headers that every response has, and the responses to requests that are refused."""

from collections.abc import Iterable
from typing import Any

from starlette.types import Scope, Send

from patchword.serving.error_response import Refusal, body_of

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
}


def secured(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response with the security headers, and without any that would admit other origins.

    A response is not stored unless its route states how it may be.
    """
    ours = encoded(SECURITY_HEADERS)
    names = {name for name, _ in ours}
    kept = [
        (name, value)
        for name, value in headers
        if name.lower() not in names and not name.lower().startswith(b"access-control-")
    ]
    if not any(name.lower() == b"cache-control" for name, _ in kept):
        kept.append((b"cache-control", b"no-store"))
    return [*kept, *ours]


async def refuse(refusal: Refusal, scope: Scope, send: Send) -> None:
    """Send a refusal: as JSON below /api/, else as text."""
    kind, body = body_of(refusal, as_json=scope["path"].startswith("/api/"))
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    if refusal.closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def headers_of(scope: Scope) -> dict[str, list[str]]:
    """Return the values of each header, by its name in lower case."""
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def encoded(headers: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    """Return headers as ASGI has them."""
    return [(name.encode(), value.encode()) for name, value in headers.items()]
