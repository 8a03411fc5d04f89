"""The answers of the routes as JSON."""

import json
from typing import Any

from starlette.responses import Response


class NonFiniteAnswerError(Exception):
    """The model computed a number that JSON does not have: its training diverged, or its files are damaged."""


def json_reply(value: Any, status: int = 200) -> Response:
    try:
        body = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise NonFiniteAnswerError("the answer has numbers that are not finite") from None
    return Response(body, status, media_type="application/json")
