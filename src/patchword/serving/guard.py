"""One ASGI class in front of every route. It refuses what does not come from the page that this server delivered.

A local server is reached by every page in the user's browser and by every program on the machine. So each request needs
the token of this start; its Host and Origin must be this server (against DNS rebinding and foreign pages); a body must
be JSON or plain bytes, which no form can send, and must be short. Every response, refusals included, has the security
headers.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from patchword.serving.access import Access
from patchword.serving.error_response import Refusal, body_of
from patchword.serving.limited_body import LimitedBody

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
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
BODY_TYPES = ("application/json", "application/octet-stream")  # no form can send these
SINGLE = ("host", "origin", "content-length", "content-type", "content-encoding", "sec-fetch-site")
OPEN = "Open the address that the server printed when it started; it contains the token."

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """Limits of a request's body: bytes, and seconds until it is complete."""

    body_bytes: int = 1_000_000
    body_seconds: float = 20.0


class Guard:
    """Refuses foreign requests, exchanges the token for a cookie, and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits = Limits()) -> None:
        self.app, self.access, self.limits = app, access, limits
        self._hosts, self._origins = access.hosts(), access.origins()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:  # no route speaks WebSocket, whose handshake the checks of Origin below would not cover
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, started = _headers(scope), False

        async def send_secured(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": secured(message.get("headers", ()))}
            await send(message)

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(refusal, scope, send_secured)
        elif (given := self._token_of(scope)) is not None:
            await self._exchange(given, scope, send_secured)
        elif not self.access.has_cookie(headers.get("cookie", ())):
            await _refuse(Refusal(401, "the request has no token", hint=OPEN), scope, send_secured)
        else:
            body = LimitedBody(receive, self.limits.body_bytes, self.limits.body_seconds)
            try:
                await self.app(scope, body, send_secured)
            except Exception:
                log.exception("the request %s %s failed", scope["method"], scope["path"])
                if not started:
                    await _refuse(Refusal(500, "the server has a fault; its log has the details"), scope, send_secured)

    def _refusal(self, scope: Scope, headers: dict[str, list[str]]) -> Refusal | None:
        """Return why a request is refused whatever its token; None if it is not."""
        repeated = next((name for name in SINGLE if len(headers.get(name, ())) > 1), None)
        if repeated:
            return Refusal(400, f"the header {repeated} is given more than once", closes=True)
        host, origin, site, length, kind, coding = (
            headers.get(name, [""])[0].strip().lower()
            for name in ("host", "origin", "sec-fetch-site", "content-length", "content-type", "content-encoding")
        )
        if host not in self._hosts:
            return Refusal(421, "this server has another name", "the Host of the printed address", closes=True)
        if "origin" in headers and origin not in self._origins:
            return Refusal(403, "the request comes from another origin", "the page of this server", closes=True)
        if site not in ("", "same-origin", "none"):
            return Refusal(
                403, "the request comes from another site", "the page of this server", hint=OPEN, closes=True
            )
        if scope["method"] not in METHODS:
            return Refusal(405, "the method is not supported", ", ".join(METHODS), closes=True)
        has_body = "transfer-encoding" in headers or length not in ("", "0")
        if not has_body and scope["method"] in ("GET", "HEAD", "DELETE"):
            return None
        if scope["method"] in ("GET", "HEAD"):
            return Refusal(400, "a GET request has no body", closes=True)
        if kind.partition(";")[0].strip() not in BODY_TYPES or coding not in ("", "identity"):
            return Refusal(415, "the body has another type", f"content-type: {' or '.join(BODY_TYPES)}", closes=True)
        if length and (not length.isdecimal() or int(length[:20]) > self.limits.body_bytes):
            most = f"at most {self.limits.body_bytes:,} bytes"
            return Refusal(413, "the body of the request is too long", most, closes=True)
        return None

    def _token_of(self, scope: Scope) -> str | None:
        """Return the token in the address of the page; None if it has none."""
        if scope["path"] != "/" or scope["method"] not in ("GET", "HEAD"):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("token")
        return given[-1] if given else None

    async def _exchange(self, token: str, scope: Scope, send: Send) -> None:
        """Exchange the token of the address for a cookie, so that it stays in no history, log or referrer."""
        if not self.access.is_token(token):
            wrong = Refusal(401, "the token is wrong: it belongs to another start of the server", hint=OPEN)
            await _refuse(wrong, scope, send)
            return
        headers = {"location": "/", "set-cookie": self.access.set_cookie(), "content-length": "0"}
        await send({"type": "http.response.start", "status": 303, "headers": _encoded(headers)})
        await send({"type": "http.response.body"})


def secured(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response with the security headers, and without any that would admit other origins.

    A response is not stored unless its route states how it may be.
    """
    ours = _encoded(SECURITY_HEADERS)
    names = {name for name, _ in ours}
    kept = [
        (name, value)
        for name, value in headers
        if name.lower() not in names and not name.lower().startswith(b"access-control-")
    ]
    if not any(name.lower() == b"cache-control" for name, _ in kept):
        kept.append((b"cache-control", b"no-store"))
    return [*kept, *ours]


async def _refuse(refusal: Refusal, scope: Scope, send: Send) -> None:
    kind, body = body_of(refusal, as_json=scope["path"].startswith("/api/"))
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    if refusal.closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _headers(scope: Scope) -> dict[str, list[str]]:
    """Return the values of each header, by its name in lower case."""
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _encoded(headers: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
