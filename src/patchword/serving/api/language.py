"""The routes of language models and translators: /fill, /generate and /translate."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.core.errors import UserError
from patchword.recipes.text.inference.generation import GenerationOptions
from patchword.recipes.text.inference.token_stream import NewText
from patchword.recipes.translation.search import Search
from patchword.serving.api.bodies import TEXT, F, Fields, check_count, read_fields, read_text, type_of
from patchword.serving.api.events import EventStream, parts_of_answer
from patchword.serving.api.replies import json_reply
from patchword.serving.api.service import Service
from patchword.serving.api.trace import tokenised
from patchword.serving.engine.request import Item
from patchword.serving.models.language import ServedLanguage
from patchword.serving.models.opening import Served
from patchword.serving.models.served import CannotError, FillGroup, ServedModel, TranslateGroup
from patchword.serving.models.translators import ServedTranslator

MOST_TOKENS, MOST_TEXTS = 2_000, 16  # new tokens of a text; samples, and beams
M = TypeVar("M", bound=ServedModel)
NewsField = Literal["domain", "date", "authors", "headline", "body"]


class FillFields(Fields):
    """The JSON body of /fill: the options of `patchword fill`."""

    inputs: list[str] | str
    top: int = Field(5, ge=1, le=100)
    pieces: bool = False
    model: str | None = None


class GenerateFields(Fields):
    """The JSON body of /generate: the options of `patchword generate`."""

    prompt: str = ""
    tokens: int = Field(100, ge=1, le=MOST_TOKENS)
    temperature: float = Field(1.0, ge=0, le=1_000, allow_inf_nan=False)
    top_k: int | None = Field(None, ge=1)
    top_p: float = Field(1.0, gt=0, le=1, allow_inf_nan=False)
    beams: int = Field(0, ge=0, le=MOST_TEXTS)
    samples: int = Field(1, ge=1, le=MOST_TEXTS)
    seed: int = Field(0, ge=0, lt=2**63)
    fields: dict[NewsField, str] = Field({})
    field: NewsField | None = None
    stream: bool = False
    model: str | None = None

    def options(self) -> GenerationOptions:
        return GenerationOptions(
            self.tokens,
            self.temperature,
            self.top_k,
            self.top_p,
            beams=self.beams,
            seed=self.seed,
            samples=self.samples,
        )


class TranslateFields(Fields):
    """The JSON body of /translate: the options of `patchword translate`."""

    inputs: list[str] | str
    beams: int = Field(Search().beams, ge=1, le=MOST_TEXTS)
    penalty: float = Field(Search().penalty, ge=0, le=100, allow_inf_nan=False)
    stream: bool = False
    model: str | None = None


async def fill(request: Request) -> Response:
    """POST /fill and /models/NAME/fill: the words at [MASK], as `patchword fill --json` prints them."""
    service: Service = request.app.state.service
    fields = await _fields(request, FillFields, lambda text: FillFields(inputs=text))
    served, model = _served(request, service, fields.model, ServedLanguage, "fill")
    texts = _texts(fields.inputs, service)
    group = FillGroup(fields.top, fields.pieces)
    items = await tokenised(request.scope, model.fill_items, texts, group)
    answers = await service.answer(request, served, items)
    return json_reply({"model": served.model.name, "answers": answers})


async def generate(request: Request) -> Response:
    """POST /generate and /models/NAME/generate: continuations, as `patchword generate --json` prints them.

    With "stream": true, server-sent events: one per token, and the whole in the end.
    """
    service: Service = request.app.state.service
    fields = await _fields(request, GenerateFields, lambda text: GenerateFields(prompt=text))
    served, _ = _served(request, service, fields.model, ServedLanguage, "generate")
    options = fields.options()
    if fields.stream and fields.beams:
        raise UserError("a beam search has no tokens to stream", expected='"beams": 0, or no "stream"')

    def prepared() -> tuple[str, Item]:
        model = served.model
        assert isinstance(model, ServedLanguage), "found as such"
        prompt = model.prompt(
            fields.prompt, {str(name): one for name, one in fields.fields.items()}, fields.field or ""
        )
        return prompt.shown, model.generate_item(prompt, options)

    shown, item = await tokenised(request.scope, prepared)
    news = {"fields": fields.fields, "field": fields.field} if fields.field else {}

    def answer(texts: Any) -> dict[str, Any]:
        return {"model": served.model.name, "prompt": shown, **news, "texts": texts}

    if fields.stream:
        return await _streamed(request, service, served, item, _new_texts, answer)
    (texts,) = await service.answer(request, served, [item])
    return json_reply(answer(texts))


async def translate(request: Request) -> Response:
    """POST /translate and /models/NAME/translate: translations, as `patchword translate --json` prints them.

    With "stream": true, one text is translated greedily, as server-sent events.
    """
    service: Service = request.app.state.service
    fields = await _fields(request, TranslateFields, lambda text: TranslateFields(inputs=text))
    served, model = _served(request, service, fields.model, ServedTranslator, "translate")
    texts = _texts(fields.inputs, service)
    if fields.stream and (fields.beams > 1 or len(texts) > 1):
        what = "only one text, with greedy search, is translated token by token"
        raise UserError(what, expected='one text and "beams": 1', got=f'{len(texts):,} and "beams": {fields.beams}')
    group = TranslateGroup(fields.beams, fields.penalty, fields.stream)
    items = await tokenised(request.scope, model.translate_items, texts, group)
    name = {"model": served.model.name}
    if fields.stream:
        return await _streamed(
            request, service, served, items[0], lambda new: [{"text": new}], lambda found: {**name, **found}
        )
    answers = await service.answer(request, served, items)
    return json_reply({**name, "answers": answers})


async def _streamed(
    request: Request,
    service: Service,
    served: Served,
    item: Item,
    part: Callable[[Any], Sequence[dict[str, Any]]],
    done: Callable[[Any], dict[str, Any]],
) -> Response:
    """Return the events. What fails before the first token has a status of its own, as without a stream."""
    parts = parts_of_answer(request, service, served, item)
    first = await anext(parts)
    return EventStream(first, parts, part, done, service.limits.deadline)


async def _fields(request: Request, kind: type[F], of_text: Callable[[str], F]) -> F:
    if type_of(request) == TEXT:
        return of_text((await read_text(request)).text)
    return await read_fields(request, kind)


def _served(request: Request, service: Service, name: str | None, kind: type[M], ability: str) -> tuple[Served, M]:
    """Return what is served under a name, and its model, which has this ability."""
    served = service.find(request.path_params.get("name") or name)
    served.model.require(ability)
    if not isinstance(served.model, kind):
        raise CannotError(f"{served.model.name} cannot {ability}")
    return served, served.model


def _texts(inputs: list[str] | str, service: Service) -> list[str]:
    texts = [inputs] if isinstance(inputs, str) else inputs
    check_count(len(texts), service.limits.texts, "texts")
    return texts


def _new_texts(new: Sequence[NewText]) -> list[dict[str, Any]]:
    return [one._asdict() for one in new]


_HANDLERS = {"fill": fill, "generate": generate, "translate": translate}
ROUTES = [
    Route(f"{before}/{name}", handler, methods=["POST"])
    for name, handler in _HANDLERS.items()
    for before in ("", "/models/{name}")
]
