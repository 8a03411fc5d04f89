"""The page Runs: the runs with their curves, live; the recipes; and jobs, which train and resume."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from patchword.core.errors import UserError
from patchword.lab.context import Lab
from patchword.lab.errors import UnknownIdError
from patchword.lab.jobs import Job
from patchword.lab.replies import json_reply
from patchword.lab.requests import Fields, read_json
from patchword.lab.run_folders.content import content_of, mistake_image
from patchword.lab.run_folders.feed import Feed
from patchword.lab.run_folders.listing import LabRuns
from patchword.lab.run_folders.starting import recipes_json, resume_words, train_words

MOST_STREAMS = 32
LIVE_SECONDS, IDLE_SECONDS = 1.0, 2.5  # between looks at the files of a stream
BEAT_SECONDS = 15.0  # between comments that keep a silent connection open
STREAM = {"content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no"}


class StartFields(Fields):
    """A job to start. train: recipe, fields and name; resume: run."""

    verb: Literal["train", "resume"]
    recipe: str = Field("", max_length=100)
    fields: dict[str, StrictBool | StrictInt | StrictFloat | StrictStr] = Field({}, max_length=200)
    name: str = Field("", max_length=100)
    run: str = Field("", max_length=1000)
    processes: int = 1


def routes(lab: Lab) -> list[Route]:
    runs, open_streams = lab.run_list, 0

    async def listed(request: Request) -> Response:
        return json_reply({"runs": await run_in_threadpool(runs.rows), "folder": str(runs.folder)})

    async def one(request: Request) -> Response:
        def read() -> dict[str, object]:
            id = request.path_params["id"]
            return {"run": runs.one(id), **content_of(runs.find(id))}

        return json_reply(await run_in_threadpool(read))

    async def image(request: Request) -> Response:
        folder = runs.find(request.path_params["id"])
        found = await run_in_threadpool(mistake_image, folder, request.path_params["number"])
        if not found:
            raise UnknownIdError("this mistake has no image")
        return Response(found, media_type="image/png")

    async def events(request: Request) -> Response:
        one = request.path_params.get("id")
        ids = [one] if one is not None else request.query_params.getlist("run")
        if one is not None:
            await run_in_threadpool(runs.find, one)
        given = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return await stream(request, ids, given)

    async def stream(request: Request, ids: Sequence[str], given: str) -> Response:
        nonlocal open_streams
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if open_streams >= MOST_STREAMS:
            raise HTTPException(429, "too many pages follow runs", {"retry-after": "10"})
        open_streams += 1
        try:
            feed = await run_in_threadpool(Feed, runs, list(dict.fromkeys(ids)), given)
        except BaseException:
            open_streams -= 1
            raise
        return FollowResponse(_follow(request, feed), left)

    def left() -> None:
        nonlocal open_streams
        open_streams -= 1

    async def recipes(request: Request) -> Response:
        return json_reply(await run_in_threadpool(recipes_json))

    async def jobs(request: Request) -> Response:
        found = await run_in_threadpool(lab.jobs.list)
        return json_reply({"jobs": [job.to_json() for job in found]})

    async def start(request: Request) -> Response:
        fields = await read_json(request, StartFields)
        return json_reply((await run_in_threadpool(_start, lab, runs, fields)).to_json())

    async def job(request: Request) -> Response:
        def read() -> dict[str, object]:
            id = request.path_params["id"]
            return {**lab.jobs.find(id).to_json(), "output": lab.jobs.output(id, 16_000)}

        return json_reply(await run_in_threadpool(read))

    async def stop(request: Request) -> Response:
        return json_reply((await run_in_threadpool(lab.jobs.stop, request.path_params["id"])).to_json())

    return [
        Route("/api/runs", listed),
        Route("/api/runs/{id}", one),
        Route("/api/runs/{id}/events", events),
        Route("/api/runs/{id}/mistakes/{number:int}", image),
        Route("/api/events", events),
        Route("/api/recipes", recipes),
        Route("/api/jobs", jobs, methods=["GET"]),
        Route("/api/jobs", start, methods=["POST"]),
        Route("/api/jobs/{id}", job, methods=["GET"]),
        Route("/api/jobs/{id}", stop, methods=["DELETE"]),
    ]


def _start(lab: Lab, runs: LabRuns, given: StartFields) -> Job:
    if given.verb == "resume":
        folder = runs.find(given.run)
        found = runs.one(given.run)
        if found["state"] not in ("stopped", "failed"):
            raise UserError(f"{found['name']} cannot be resumed", expected="a stopped run", got=found["position"])
        words = resume_words(folder, given.processes)
        return lab.jobs.start("train", words, name=str(found["name"]), about={"run": given.run})
    words = train_words(given.recipe, given.fields, given.name, given.processes, runs.folder)
    return lab.jobs.start("train", words, name=given.name, about={"run": given.name, "recipe": given.recipe})


class FollowResponse(StreamingResponse):
    """A stream that is counted while it is open, however it ends."""

    def __init__(self, content: AsyncIterator[str], on_close: Callable[[], None]) -> None:
        super().__init__(content, headers=STREAM)
        self.on_close = on_close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.on_close()


async def _follow(request: Request, feed: Feed) -> AsyncIterator[str]:
    """Yield the events of a feed until the page leaves."""
    yield "retry: 3000\n\n"
    beat = time.monotonic()
    while not await request.is_disconnected():
        text = await run_in_threadpool(feed.poll)
        now = time.monotonic()
        if text or now - beat >= BEAT_SECONDS:
            beat = now
            yield text or ": beat\n\n"
        await asyncio.sleep(LIVE_SECONDS if feed.is_live() else IDLE_SECONDS)
