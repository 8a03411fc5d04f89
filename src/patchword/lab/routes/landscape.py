"""The page Landscape: what the runs have, their surfaces, and the jobs that compute them."""

from functools import partial
from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.core.errors import UserError
from patchword.lab.context import Lab
from patchword.lab.landscapes import (
    MeasuredRun,
    Verb,
    find_run,
    list_json,
    measured_runs,
    measures_json,
    seconds_of,
    start_job,
    stop_job,
)
from patchword.lab.replies import json_reply
from patchword.lab.requests import Fields, read_json

SIZES = range(5, 62, 2)  # points per axis


class Measurement(Fields):
    """What is measured. size: points per axis of a landscape."""

    verb: Verb
    size: Annotated[int, Field(ge=SIZES.start, le=SIZES[-1])] = 21
    samples: Annotated[int, Field(ge=16, le=8192)] = 1024

    def checked(self) -> "Measurement":
        if self.size not in SIZES:
            raise UserError("wrong number of points per axis", expected="an odd number", got=self.size)
        return self


class Stop(Fields):
    """The job that is stopped."""

    job: Annotated[str, Field(max_length=80)]


def routes(lab: Lab) -> list[Route]:
    def runs() -> dict[str, MeasuredRun]:
        return measured_runs(lab.models, lab.runs)

    def one(request: Request) -> MeasuredRun:
        return find_run(runs(), request.path_params["id"])

    async def listed(request: Request) -> Response:
        return json_reply(await lab.opened.run(lambda: list_json(runs(), lab.jobs)))

    async def measures(request: Request) -> Response:
        return json_reply(await lab.opened.run(lambda: measures_json(one(request))))

    async def expected(request: Request) -> Response:
        asked = (await read_json(request, Measurement)).checked()

        def seconds() -> int:
            return seconds_of(one(request), asked.verb, asked.size, asked.samples)

        return json_reply({"seconds": await lab.opened.run(seconds)})

    async def start(request: Request) -> Response:
        asked = (await read_json(request, Measurement)).checked()

        def started() -> dict[str, object]:
            return start_job(lab.jobs, one(request), asked.verb, asked.size, asked.samples).to_json()

        return json_reply(await lab.opened.run(started))

    async def stop(request: Request) -> Response:
        asked = await read_json(request, Stop)
        return json_reply((await lab.opened.run(partial(stop_job, lab.jobs, asked.job))).to_json())

    return [
        Route("/api/landscapes", listed),
        Route("/api/landscapes/stop", stop, methods=["POST"]),
        Route("/api/landscapes/{id}", measures),
        Route("/api/landscapes/{id}/expected", expected, methods=["POST"]),
        Route("/api/landscapes/{id}/start", start, methods=["POST"]),
    ]
