"""The routes that predict, and the list of models."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.serving.api.bodies import (
    JSON,
    TEXT,
    PredictFields,
    check_count,
    read_fields,
    read_images,
    read_text,
    type_of,
)
from patchword.serving.api.errors import UnsupportedTypeError
from patchword.serving.api.replies import json_reply
from patchword.serving.api.service import Service
from patchword.serving.api.trace import tokenised
from patchword.serving.engine.request import Item
from patchword.serving.models.opening import Served

_TOP = 3


async def list_models(request: Request) -> Response:
    """GET /models: what is served, and what each model can be asked."""
    service: Service = request.app.state.service
    found = [
        {"name": name, "reads": one.model.reads, "can": list(one.model.abilities), **one.model.describe()}
        for name, one in service.served.items()
    ]
    return json_reply({"models": found})


async def predict(request: Request) -> Response:
    """POST /predict and /models/NAME/predict: an answer per text or image, as `patchword predict --json` prints it."""
    service: Service = request.app.state.service
    served, items = await _asked(request, service)
    answers = await service.answer(request, served, items)
    return json_reply({"model": served.model.name, "answers": answers})


async def _asked(request: Request, service: Service) -> tuple[Served, list[Item]]:
    """Return the model and its inputs."""
    name, kind, top = request.path_params.get("name"), type_of(request), _TOP
    inputs: Sequence[Any]
    if kind == JSON:
        fields = await read_fields(request, PredictFields)
        served = service.find(name or fields.model)
        inputs, top = fields.texts(), fields.top
    else:
        served = service.find(name)
        inputs = [await read_text(request)] if kind == TEXT else await read_images(request, service.limits.images)
    given = "texts" if kind in (JSON, TEXT) else "images"
    if served.model.reads != given:
        expected = (
            f"content-type: {JSON} or {TEXT}" if given == "images" else "content-type: multipart/form-data or image/png"
        )
        raise UnsupportedTypeError(f"{served.model.name} reads {served.model.reads}", expected=expected, got=kind)
    check_count(len(inputs), service.limits.texts if given == "texts" else service.limits.images, given)
    return served, await tokenised(request.scope, served.model.items, inputs, top)


ROUTES = [
    Route("/models", list_models, methods=["GET"]),
    Route("/predict", predict, methods=["POST"]),
    Route("/models/{name}/predict", predict, methods=["POST"]),
]
