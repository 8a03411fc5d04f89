"""The files of the page, and the list of models with their weights."""

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword import __version__
from patchword.lab.context import Lab
from patchword.lab.models import find_model
from patchword.lab.replies import JSON, encoded

FRESH = {"cache-control": "no-cache"}  # asked again at each start: names of assets do not change with their content


def routes(lab: Lab) -> list[Route]:
    listed = encoded({"version": __version__, "models": [one.to_json() for one in lab.models.values()]})

    async def index(request: Request) -> Response:
        return Response(lab.bundle.index, media_type="text/html", headers=FRESH)

    async def asset(request: Request) -> Response:
        found = lab.bundle.assets.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "the page has no such file")
        return Response(found.content, headers={"content-type": found.media_type, **FRESH})

    async def models(request: Request) -> Response:
        return Response(listed, media_type=JSON)

    async def weights(request: Request) -> Response:
        model = find_model(lab.models, request.path_params["id"])
        return Response(await run_in_threadpool(model.weights), media_type="application/octet-stream")

    async def config(request: Request) -> Response:
        model = find_model(lab.models, request.path_params["id"])
        return Response(encoded(await run_in_threadpool(model.config)), media_type=JSON)

    return [
        Route("/", index),
        Route("/assets/{name:path}", asset),
        Route("/api/lab", models),
        Route("/api/models/{id}/weights", weights),
        Route("/api/models/{id}/config", config),
    ]
