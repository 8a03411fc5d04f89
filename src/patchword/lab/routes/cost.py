"""The page Cost: the registry, and the count of a model with changed fields."""

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.core.errors import UserError
from patchword.lab.context import Lab
from patchword.lab.costs import registry_json
from patchword.lab.replies import JSON, encoded

MOST_WAITING = 8  # counts that wait for their turn; the page asks again after its last change


def routes(lab: Lab) -> list[Route]:
    listed, waiting = encoded(registry_json()), 0

    async def registry(request: Request) -> Response:
        return Response(listed, media_type=JSON)

    async def cost(request: Request) -> Response:
        nonlocal waiting
        pairs = request.query_params.multi_items()
        names = [value for name, value in pairs if name == "model"]
        if len(names) != 1:
            raise UserError("the request names no model", expected="one field model=NAME", got=len(names))
        if waiting >= MOST_WAITING:
            raise HTTPException(429, "too many counts are waiting", {"retry-after": "1"})
        waiting += 1
        try:
            fields = [pair for pair in pairs if pair[0] != "model"]
            found = await asyncio.wrap_future(lab.costs.start(names[0], fields))
        finally:
            waiting -= 1
        return Response(found, media_type=JSON)

    return [Route("/api/registry", registry), Route("/api/cost", cost)]
