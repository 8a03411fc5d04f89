"""The page Words: tokens and attention, masked and next words, similarity, tags, answers, the walk of one token."""

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.lab.context import Lab
from patchword.lab.replies import arrays_reply, json_reply
from patchword.lab.requests import Fields, read_json
from patchword.lab.words.answers import answered, classified, compared, continued, filled, tagged
from patchword.lab.words.attention import attention_of, walk_of
from patchword.lab.words.models import word_models
from patchword.lab.words.questions import (
    AnswerRequest,
    FillRequest,
    NextRequest,
    SimilarRequest,
    TextRequest,
    WalkRequest,
)
from patchword.pipelines.interface import Pipeline

F = TypeVar("F", bound=Fields)


def routes(lab: Lab) -> list[Route]:
    listed: list[dict[str, Any]] | None = None

    async def models(request: Request) -> Response:
        nonlocal listed
        if listed is None:
            listed = await run_in_threadpool(word_models, lab.models)
        return json_reply({"models": listed})

    def route(name: str, kind: type[F], answer: Callable[[Pipeline, F], Response]) -> Route:
        async def asked(request: Request) -> Response:
            fields = await read_json(request, kind)
            return await lab.opened.ask(request.path_params["id"], lambda pipeline: answer(pipeline, fields))

        return Route(f"/api/words/{{id}}/{name}", asked, methods=["POST"])

    return [
        Route("/api/words", models),
        route("attention", TextRequest, lambda pipeline, asked: arrays_reply(*attention_of(pipeline, asked.text))),
        route("walk", WalkRequest, lambda pipeline, asked: arrays_reply(*walk_of(pipeline, asked))),
        route("fill", FillRequest, lambda pipeline, asked: json_reply(filled(pipeline, asked))),
        route("next", NextRequest, lambda pipeline, asked: json_reply(continued(pipeline, asked))),
        route("similar", SimilarRequest, lambda pipeline, asked: json_reply(compared(pipeline, asked))),
        route("tags", TextRequest, lambda pipeline, asked: json_reply(tagged(pipeline, asked.text))),
        route("answer", AnswerRequest, lambda pipeline, asked: json_reply(answered(pipeline, asked))),
        route("classes", TextRequest, lambda pipeline, asked: json_reply(classified(pipeline, asked.text))),
    ]
