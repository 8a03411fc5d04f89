"""Reads the bodies of requests: JSON with checked fields, or the bytes of one file."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from patchword.core.errors import UserError

MOST_JSON = 1_000_000
BYTES = "application/octet-stream"


class Fields(BaseModel):
    """The fields of a request. Unknown ones are refused, and no value is converted to another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


F = TypeVar("F", bound=Fields)


async def read_json(request: Request, kind: type[F]) -> F:
    """Return the checked fields of a JSON body."""
    body = await request.body()
    if len(body) > MOST_JSON:
        raise UserError("the request is too long", expected=f"at most {MOST_JSON:,} bytes", got=f"{len(body):,}")
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise UserError(f"the request cannot be read: {place}", expected=first["msg"][:200]) from None


async def read_bytes(request: Request) -> bytes:
    """Return the bytes of one file, sent as they are."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != BYTES:
        raise UserError("the body has another type", expected=f"content-type: {BYTES}")
    return await request.body()
