"""The page Compare: the registry beside published figures, and the source code of a model."""

from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.lab.comparison import comparison_json, counted_json
from patchword.lab.context import Lab
from patchword.lab.model_code import code_json
from patchword.lab.replies import JSON, encoded, json_reply


def routes(lab: Lab) -> list[Route]:
    listed = encoded(comparison_json())

    async def compare(request: Request) -> Response:
        return Response(listed, media_type=JSON)

    async def counted(request: Request) -> Response:
        return json_reply(await lab.opened.run(partial(counted_json, request.path_params["id"])))

    async def code(request: Request) -> Response:
        return json_reply(await run_in_threadpool(code_json, request.path_params["model"]))

    return [Route("/api/compare", compare), Route("/api/compare/{id}", counted), Route("/api/code/{model}", code)]
