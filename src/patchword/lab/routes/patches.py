"""The page Patches: what a model sees in an image that the page sends, and images to start with."""

from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.core.errors import UserError
from patchword.lab.context import Lab
from patchword.lab.models import find_model
from patchword.lab.patches.looking import Wanted, answer
from patchword.lab.patches.samples import samples_for
from patchword.lab.replies import arrays_reply, json_reply
from patchword.lab.requests import read_bytes

MOST_DIGITS = 6
EXPECTED = "nothing, x and y of the query pixel, or the number of a class"
KEPT = {"cache-control": "private, max-age=3600"}


def routes(lab: Lab) -> list[Route]:
    async def samples(request: Request) -> Response:
        model = find_model(lab.models, request.path_params["id"])
        found = await run_in_threadpool(samples_for, lab.models, model.id)
        return json_reply(found.to_json())

    async def sample(request: Request) -> Response:
        model = find_model(lab.models, request.path_params["id"])
        found = await run_in_threadpool(samples_for, lab.models, model.id)
        path = found.image(request.path_params["number"])
        return Response(await run_in_threadpool(path.read_bytes), media_type="image/png", headers=KEPT)

    async def look(request: Request) -> Response:
        wanted = _wanted(request)
        content = await read_bytes(request)
        reply = await lab.opened.ask(request.path_params["id"], partial(answer, content=content, wanted=wanted))
        return arrays_reply(reply.about, reply.arrays)

    return [
        Route("/api/look/{id}/samples", samples),
        Route("/api/look/{id}/samples/{number:int}", sample),
        Route("/api/look/{id}", look, methods=["POST"]),
    ]


def _wanted(request: Request) -> Wanted:
    fields = dict(request.query_params.multi_items())
    if len(fields) != len(request.query_params.multi_items()):
        raise UserError("a field is given twice", expected=EXPECTED)
    if any(len(text) > MOST_DIGITS or not (text.isascii() and text.isdecimal()) for text in fields.values()):
        raise UserError("the request cannot be read", expected="numbers")
    numbers = {name: int(text) for name, text in fields.items()}
    if numbers.keys() == {"x", "y"}:
        return Wanted(at=(numbers["x"], numbers["y"]))
    if numbers.keys() <= {"class"}:
        return Wanted(about=numbers.get("class"))
    raise UserError("the request cannot be read", expected=EXPECTED)
