"""The page Windows: the attention patterns of a model."""

from functools import lru_cache, partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.core.errors import UserError
from patchword.lab.context import Lab
from patchword.lab.replies import JSON, encoded
from patchword.lab.windows.patterns import patterns_json
from patchword.lab.windows.request import card_of, lengths_of, own_card, tokens_of
from patchword.lab.windows.text_patterns import text_patterns_json
from patchword.models import REGISTRY

MOST_SAVED = 32  # answers of up to 300 KB; of Big Bird's longest texts, 1.6 MB
FIELDS = {"model", "image", "tokens"}


def routes(lab: Lab) -> list[Route]:
    @lru_cache(MOST_SAVED)
    def answer(model: str, image: str, tokens: str) -> bytes:
        card = own_card(lab.models, model)
        if REGISTRY.reads_images(card.model):
            if tokens:
                raise UserError(f"{card.model} reads images", expected="model=NAME, and image=SIDE if wanted")
            return encoded(patterns_json(card_of(lab.models, model, image)))
        if image:
            raise UserError(f"{card.model} reads texts", expected="model=NAME, and tokens=LENGTH if wanted")
        return encoded(text_patterns_json(card, tokens_of(card, tokens), lengths_of(card)))

    async def windows(request: Request) -> Response:
        pairs = request.query_params.multi_items()
        found = dict(pairs)
        if len(found) != len(pairs) or found.keys() - FIELDS or "model" not in found:
            raise UserError("the request cannot be read", expected="model=NAME, and image=SIDE or tokens=LENGTH")
        work = partial(answer, found["model"], found.get("image", ""), found.get("tokens", ""))
        return Response(await lab.opened.run(work), media_type=JSON)

    return [Route("/api/windows", windows)]
