"""Responses to requests that are refused: as JSON for programs, as one readable text for a browser."""

import json
from typing import Any, NamedTuple

from patchword.core.errors import UserError

LONGEST = 2_000  # characters of one field of an error


class Refusal(NamedTuple):
    """Why a request is refused. status: the HTTP status; closes: True if the rest of the request is not read."""

    status: int
    what: str
    expected: str = ""
    got: str = ""
    hint: str = ""
    closes: bool = False

    def text(self) -> str:
        """Return the message as plain text."""
        return f"{UserError(self.what, expected=self.expected or None, got=self.got or None, hint=self.hint)}\n"


def error_json(error: UserError | Refusal) -> dict[str, Any]:
    """Return the error as every route of the API answers it."""
    fields = {name: getattr(error, name) for name in ("what", "expected", "got", "hint")}
    texts = {name: None if value in (None, "") else str(value) for name, value in fields.items()}
    return {"error": {name: _short(text) if text else None for name, text in texts.items()}}


def _short(text: str) -> str:
    """Cut a text that grew with the request, such as the names of a million columns."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def body_of(refusal: Refusal, as_json: bool) -> tuple[bytes, bytes]:
    """Return the content type and the body of a refusal."""
    if as_json:
        return b"application/json", json.dumps(error_json(refusal)).encode()
    return b"text/plain; charset=utf-8", refusal.text().encode()
