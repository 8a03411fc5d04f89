"""Reads the bodies of requests: JSON, one text, one image, or a form with images."""

import asyncio
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import Request

from patchword.core.errors import UserError
from patchword.recipes.text.inference.input import TextInput
from patchword.serving.api.errors import UnsupportedTypeError
from patchword.serving.models.served import MOST_TOP

JSON, TEXT, FORM, BYTES = "application/json", "text/plain", "multipart/form-data", "application/octet-stream"
IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")
BODY_TYPES = (JSON, TEXT, FORM, *IMAGES, BYTES)
_LARGE = 100_000  # bytes of JSON that are parsed in a thread


class Fields(BaseModel):
    """The fields of a JSON body. Unknown ones are refused, and no value is converted to another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


F = TypeVar("F", bound=Fields)


class TextFields(Fields):
    """A text with a second text or a question."""

    text: str
    pair: str | None = None
    question: str | None = None


class PredictFields(Fields):
    """The JSON body of /predict."""

    inputs: list[str | TextFields] | str | TextFields
    top: int = Field(3, ge=1, le=MOST_TOP)
    model: str | None = None

    def texts(self) -> list[TextInput]:
        inputs = self.inputs if isinstance(self.inputs, list) else [self.inputs]
        return [TextInput(one) if isinstance(one, str) else _with_pair(one) for one in inputs]


def type_of(request: Request) -> str:
    return str(request.headers.get("content-type", "")).partition(";")[0].strip().lower()


async def read_fields(request: Request, kind: type[F]) -> F:
    """Return the checked fields of a JSON body."""
    body = await request.body()
    if len(body) > _LARGE:
        return await asyncio.to_thread(parsed, body, kind)
    return parsed(body, kind)


async def read_text(request: Request) -> TextInput:
    """Return a body that is one text."""
    try:
        return TextInput((await request.body()).decode())
    except UnicodeDecodeError as error:
        raise UserError("the text is not UTF-8", got=f"the byte 0x{error.object[error.start]:02x}") from None


async def read_images(request: Request, most: int) -> list[bytes]:
    """Return the files of a form, or a body that is one file."""
    kind = type_of(request)
    if kind in (*IMAGES, BYTES):
        return [await request.body()]
    if kind != FORM:
        expected = f"{FORM} with files, {IMAGES[0]}, or another image"
        raise UnsupportedTypeError("this model reads images", expected=f"content-type: {expected}", got=kind)
    async with request.form(max_files=most, max_fields=0) as form:
        files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
        return [await file.read() for file in files]


def check_count(count: int, most: int, what: str) -> None:
    if not 1 <= count <= most:
        hint = "send them in several requests" if count else ""
        raise UserError(f"the number of {what}", expected=f"1 to {most:,} per request", got=f"{count:,}", hint=hint)


def parsed(body: bytes, kind: type[F]) -> F:
    """Return the checked fields of JSON."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:200] or "the body"
        raise UserError(f"the request cannot be read: {place}", expected=first["msg"][:200]) from None


def _with_pair(given: TextFields) -> TextInput:
    if given.pair is not None and given.question is not None:
        raise UserError("more than two texts were given", expected='one of "pair" and "question"')
    return TextInput(given.text, given.pair if given.question is None else given.question)
