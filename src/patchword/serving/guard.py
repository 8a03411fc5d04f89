"""One ASGI class in front of every route. It refuses what does not come from the page that this server delivered.

A local server is reached by every page in the user's browser and by every program on the machine. So each request needs
the token of this start; its Host and Origin must be this server (against DNS rebinding and foreign pages); a body must
be JSON or plain bytes, which no form can send, and must be short. Every response, refusals included, has the security
headers.
"""

import logging
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from patchword.serving.access import Access
from patchword.serving.error_response import Refusal
from patchword.serving.limited_body import LimitedBody
from patchword.serving.request_rules import RequestRules
from patchword.serving.secured_response import encoded, headers_of, refuse, secured

BODY_TYPES = ("application/json", "application/octet-stream")  # no form can send these
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
        self._rules = RequestRules(access.hosts(), access.origins(), BODY_TYPES, limits.body_bytes, hint=OPEN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:  # no route speaks WebSocket, whose handshake the checks of Origin below would not cover
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, started = headers_of(scope), False

        async def send_secured(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": secured(message.get("headers", ()))}
            await send(message)

        refusal = self._rules.refusal(scope, headers)
        if refusal is not None:
            await refuse(refusal, scope, send_secured)
        elif (given := self._token_of(scope)) is not None:
            await self._exchange(given, scope, send_secured)
        elif not self.access.has_cookie(headers.get("cookie", ())):
            await refuse(Refusal(401, "the request has no token", hint=OPEN), scope, send_secured)
        else:
            body = LimitedBody(receive, self.limits.body_bytes, self.limits.body_seconds)
            try:
                await self.app(scope, body, send_secured)
            except Exception:
                log.exception("the request %s %s failed", scope["method"], scope["path"])
                if not started:
                    await refuse(Refusal(500, "the server has a fault; its log has the details"), scope, send_secured)

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
            await refuse(wrong, scope, send)
            return
        headers = {"location": "/", "set-cookie": self.access.set_cookie(), "content-length": "0"}
        await send({"type": "http.response.start", "status": 303, "headers": encoded(headers)})
        await send({"type": "http.response.body"})
