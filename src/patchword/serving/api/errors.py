"""Errors as the API answers them: one JSON object for people and for the clients of OpenAI's API."""

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from patchword.core.errors import UserError
from patchword.serving.engine.errors import DeadlineError, DrainingError, QueueFullError, TooMuchWorkError
from patchword.serving.error_response import Refusal, error_json
from patchword.serving.models.texts import TextTooLongError

_STATUSES: dict[type[Exception], int] = {
    QueueFullError: 429,
    TooMuchWorkError: 413,
    TextTooLongError: 413,
    DeadlineError: 504,
    DrainingError: 503,
}
_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
FAULT = Refusal(500, "the server has a fault", hint="its log has the details under the id of this request")
CLIENT_GONE = 499  # for the metrics; no client reads it


class UnknownModelError(UserError):
    """A request names a model that is not served."""


class UnsupportedTypeError(UserError):
    """The body has a type that the model does not read."""


_STATUSES |= {UnknownModelError: 404, UnsupportedTypeError: 415}


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 422)


def error_body(error: UserError | Refusal, status: int, scope: Scope) -> bytes:
    """Return the error with expected, got and hint, and with the fields that the clients of OpenAI's API read.

    The Open Inference Protocol has one text as its error; the fields are beside it.
    """
    fields: dict[str, Any] = error_json(error)["error"]
    message = str(error if isinstance(error, UserError) else error.text().strip())
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    known = {"message": message[:2_000], "type": kind, "code": None, "param": None}
    found = {**known, **fields, "request_id": scope["state"]["request_id"]}
    if scope["path"] == "/v2" or scope["path"].startswith("/v2/"):
        return json.dumps({"error": found["message"], "details": found}).encode()
    return json.dumps({"error": found}).encode()


def error_response(error: UserError, scope: Scope) -> Response:
    status = status_of(error)
    headers = {}
    if isinstance(error, QueueFullError):
        headers["retry-after"] = str(error.retry_after)
    if isinstance(error, DrainingError):
        headers |= {"retry-after": "5", "connection": "close"}
    body = error_body(error, status, scope)
    return Response(body, status, headers, media_type="application/json")


def http_error_response(error: HTTPException, scope: Scope) -> Response:
    """Return the response to a wrong address or method, or to a body that is too long or too slow."""
    refusal = Refusal(error.status_code, str(error.detail).rstrip(".").lower())
    return refusal_response(refusal, scope, dict(error.headers or {}))


def refusal_response(refusal: Refusal, scope: Scope, headers: dict[str, str] | None = None) -> Response:
    headers = {**({"connection": "close"} if refusal.closes else {}), **(headers or {})}
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    body = error_body(refusal, refusal.status, scope)
    return Response(body, refusal.status, headers, media_type="application/json")
