"""The page Windows: the attention patterns of a model."""

from functools import lru_cache, partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.core.errors import UserError
from patchword.lab.context import Lab
from patchword.lab.replies import JSON, encoded
from patchword.lab.windows.patterns import patterns_json
from patchword.lab.windows.request import card_of

MOST_SAVED = 32  # answers of up to 300 KB
FIELDS = {"model", "image"}


def routes(lab: Lab) -> list[Route]:
    @lru_cache(MOST_SAVED)
    def answer(model: str, image: str) -> bytes:
        return encoded(patterns_json(card_of(lab.models, model, image)))

    async def windows(request: Request) -> Response:
        pairs = request.query_params.multi_items()
        found = dict(pairs)
        if len(found) != len(pairs) or found.keys() - FIELDS or "model" not in found:
            raise UserError("the request cannot be read", expected="model=NAME, and image=SIDE if wanted")
        work = partial(answer, found["model"], found.get("image", ""))
        return Response(await lab.opened.run(work), media_type=JSON)

    return [Route("/api/windows", windows)]
