"""The page Translate: translations with their search and attention, and the next words at a step."""

from typing import Annotated, TypeVar

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.core.errors import UserError
from patchword.lab.context import Lab
from patchword.lab.models import find_model
from patchword.lab.replies import JSON, encoded, json_reply
from patchword.lab.requests import Fields, read_json
from patchword.lab.translation.translate import next_words_json, translation_json
from patchword.models import REGISTRY
from patchword.recipes.translation.search import Search

MOST_CHARACTERS = 600
Prefix = Annotated[list[Annotated[int, Field(ge=0, lt=10_000_000)]], Field(max_length=200)]


class TextFields(Fields):
    model: str
    text: str = Field(min_length=1, max_length=MOST_CHARACTERS)
    start: Prefix = Field(default=[])


class TranslateFields(TextFields):
    beams: int = Field(5, ge=1, le=8)
    penalty: float = Field(0.6, ge=0, le=3)


class NextFields(TextFields):
    top: int = Field(10, ge=1, le=50)


T = TypeVar("T", bound=TextFields)


def routes(lab: Lab) -> list[Route]:
    translators = [one.to_json() for one in lab.models.values() if _translates(one.model)]
    listed = encoded({"models": translators})

    async def models(request: Request) -> Response:
        return Response(listed, media_type=JSON)

    async def translate(request: Request) -> Response:
        asked = _checked(await read_json(request, TranslateFields))
        search = Search(asked.beams, asked.penalty)
        return json_reply(
            await lab.opened.ask(
                asked.model, lambda model: translation_json(model.translator, asked.text, search, asked.start)
            )
        )

    async def next_words(request: Request) -> Response:
        asked = _checked(await read_json(request, NextFields))
        return json_reply(
            await lab.opened.ask(
                asked.model, lambda model: next_words_json(model.translator, asked.text, asked.start, asked.top)
            )
        )

    def _checked(asked: T) -> T:
        found = find_model(lab.models, asked.model)
        if not _translates(found.model):
            raise UserError(f"{found.name} does not translate", expected="a translator")
        if not asked.text.strip():
            raise UserError("the text is empty", expected="a sentence")
        return asked

    return [
        Route("/api/translators", models),
        Route("/api/translate", translate, methods=["POST"]),
        Route("/api/translate/next", next_words, methods=["POST"]),
    ]


def _translates(model: str) -> bool:
    return model in REGISTRY.names() and REGISTRY.reads(model) == "pairs"
