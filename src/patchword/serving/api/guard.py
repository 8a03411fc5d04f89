"""One ASGI class in front of the routes of `patchword serve`: checks, token, request id, limits, counts."""

import logging
import re
import secrets
import time
from dataclasses import dataclass, field
from hmac import compare_digest

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from patchword.serving.api.bodies import BODY_TYPES
from patchword.serving.api.errors import CLIENT_GONE, FAULT, refusal_response
from patchword.serving.api.service import Service
from patchword.serving.api.trace import Trace, trace_of
from patchword.serving.error_response import Refusal
from patchword.serving.limited_body import LimitedBody
from patchword.serving.request_rules import METHODS, RequestRules
from patchword.serving.secured_response import headers_of, secured

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ApiAccess:
    """Who may ask. hosts, origins: accepted values of these headers. token: None asks for none."""

    hosts: frozenset[str]
    origins: frozenset[str]
    token: str | None = field(default=None, repr=False)

    def admits(self, authorization: str) -> bool:
        """Compare `Bearer TOKEN` in a time that does not depend on the text; without a token all are admitted."""
        if self.token is None:
            return True
        scheme, _, given = authorization.partition(" ")
        is_token = compare_digest(given.strip().encode("utf-8", "surrogateescape"), self.token.encode())
        return is_token and scheme.lower() == "bearer"


class ApiGuard:
    """Refuses foreign and oversized requests, gives each request an id, and counts the responses.

    /health and /v2/health are open to all: they show nothing, and probes know neither the name of the server nor its
    token. Bodies of /v2 may have no type, which tritonclient does not send.
    """

    def __init__(self, app: ASGIApp, access: ApiAccess, service: Service) -> None:
        self.app, self.access, self.service = app, access, service
        page = "a program, or a page of this server"
        limits = service.limits
        self._rules = RequestRules(access.hosts, access.origins, BODY_TYPES, limits.body_bytes, page, untyped="/v2/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, begin, status = headers_of(scope), time.monotonic(), 0
        given = headers.get("x-request-id", [""])[0]
        request_id = given if _ID.fullmatch(given) else secrets.token_hex(8)
        response_begin = 0.0
        scope.setdefault("state", {}).update(request_id=request_id, trace=Trace())

        async def send_secured(message: Message) -> None:
            nonlocal status, response_begin
            if message["type"] == "http.response.start":
                status, response_begin = message["status"], time.monotonic()
                added = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
                message = {**message, "headers": secured(added)}
            await send(message)

        counted = not self.service.is_draining  # who comes later is refused, and does not hold up the end
        self.service.open_requests += counted
        try:
            if (refusal := self._refusal(scope, headers)) is not None:
                await refusal_response(refusal, scope)(scope, receive, send_secured)
                return
            limits = self.service.limits
            await self.app(scope, LimitedBody(receive, limits.body_bytes, limits.body_seconds), send_secured)
        except Exception:
            log.exception("request %s failed: %s %s", request_id, scope["method"], scope["path"])
            if not status:
                await refusal_response(FAULT, scope)(scope, receive, send_secured)
        finally:
            self.service.open_requests -= counted
            route = getattr(scope.get("endpoint"), "__name__", "none")
            self._ended(scope, route, status or CLIENT_GONE, begin, response_begin)

    def _ended(self, scope: Scope, route: str, status: int, begin: float, response_begin: float) -> None:
        """Count a request and log it. response_begin: 0 if it has no response"""
        trace, now = trace_of(scope), time.monotonic()
        if response_begin:
            trace.seconds["write"] = now - response_begin
        self.service.metrics.observe(route, status, now - begin, trace.seconds)
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.service.log_access(trace.record(scope["state"]["request_id"], method, route, status, now - begin))

    def _refusal(self, scope: Scope, headers: dict[str, list[str]]) -> Refusal | None:
        if scope["path"].startswith(("/health/", "/v2/health/")) and scope["method"] in ("GET", "HEAD"):
            return None
        refusal = self._rules.refusal(scope, headers)
        if refusal is None and not self.access.admits(headers.get("authorization", [""])[0]):
            hint = "the owner of the server has the token; clients of OpenAI's API call it the API key"
            return Refusal(401, "the token is missing or wrong", "the header Authorization: Bearer TOKEN", hint=hint)
        return refusal
