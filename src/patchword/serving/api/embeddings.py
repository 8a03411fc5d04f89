"""OpenAI's route for embeddings, so that its clients and what is built on them work unchanged."""

import base64
from typing import Any, Literal

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.core.errors import UserError
from patchword.serving.api.bodies import Fields, check_count, read_fields
from patchword.serving.api.replies import NonFiniteAnswerError, json_reply
from patchword.serving.api.service import Service
from patchword.serving.api.trace import tokenised
from patchword.serving.models.served import CannotError
from patchword.serving.models.texts import ServedTexts


class EmbeddingFields(Fields):
    """The fields of OpenAI's API. user: accepted and not used."""

    input: str | list[str] | list[int] | list[list[int]]
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None

    def texts(self) -> list[str]:
        given = [self.input] if isinstance(self.input, str) else self.input
        texts = [one for one in given if isinstance(one, str)]
        if len(texts) < len(given):
            hint = "token ids belong to the tokenizer of another model; LangChain: check_embedding_ctx_length=False"
            raise UserError("the input has token ids", expected="a text or a list of texts", hint=hint)
        return texts


async def embeddings(request: Request) -> Response:
    """POST /v1/embeddings: the vectors of `patchword embed`."""
    service: Service = request.app.state.service
    fields = await read_fields(request, EmbeddingFields)
    served, texts = service.find(fields.model), fields.texts()
    model = served.model
    if not isinstance(model, ServedTexts):
        raise CannotError(f"{model.name} reads {model.reads}", expected="a model of texts")
    check_count(len(texts), service.limits.texts, "texts")
    if fields.dimensions not in (None, model.width):
        hint = "this model was not trained so that the first numbers of a vector are a vector of their own"
        raise UserError("dimensions", expected=f"{model.width}, or none", got=fields.dimensions, hint=hint)
    items = await tokenised(request.scope, model.embed_items, texts)
    vectors = await service.answer(request, served, items)
    data: list[dict[str, Any]] = []
    for index, (vector, item) in enumerate(zip(vectors, items, strict=True)):
        found = {"object": "embedding", "index": index, "embedding": _written(vector, fields.encoding_format)}
        data.append(found | ({"truncated": True} if item.value.is_truncated else {}))
    tokens = sum(item.size for item in items)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_reply({"object": "list", "data": data, "model": model.name, "usage": usage})


async def list_models(request: Request) -> Response:
    """GET /v1/models: the models that embed."""
    service: Service = request.app.state.service
    names = [name for name, one in service.served.items() if isinstance(one.model, ServedTexts)]
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "patchword"} for name in names]
    return json_reply({"object": "list", "data": data})


def _written(vector: Any, encoding: str) -> str | list[float]:
    """Return a vector as base64 of little-endian float32, or as numbers."""
    if not np.isfinite(vector).all():
        raise NonFiniteAnswerError("the vector has numbers that are not finite")
    if encoding == "base64":
        return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()
    found: list[float] = vector.tolist()
    return found


ROUTES = [
    Route("/v1/embeddings", embeddings, methods=["POST"]),
    Route("/v1/models", list_models, methods=["GET"]),
]
