"""Answers that come in parts: what the engine reports, as server-sent events."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from patchword.core.errors import UserError
from patchword.serving.api.errors import FAULT, error_body, status_of
from patchword.serving.api.replies import NonFiniteAnswerError
from patchword.serving.api.service import Service, disconnection
from patchword.serving.api.trace import trace_of
from patchword.serving.engine.errors import DeadlineError
from patchword.serving.engine.request import Item
from patchword.serving.models.opening import Served


@dataclass(frozen=True)
class Finished:
    """The last part: the whole answer."""

    answer: Any


async def parts_of_answer(request: Request, service: Service, served: Served, item: Item) -> AsyncIterator[Any]:
    """Yield what the engine reports of one input, and `Finished` in the end.

    It has its place in the queue and its deadline as every request. A client that hangs up frees its place at the next
    token, and ClientDisconnect is raised.
    """
    loop, parts = asyncio.get_running_loop(), asyncio.Queue[Any]()

    def report(part: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended before the engine
            loop.call_soon_threadsafe(parts.put_nowait, part)

    trace, begin = trace_of(request.scope), loop.time()
    trace.asks(served.model.name, [item])
    queued = served.engine.submit([item], service.limits.deadline, report)
    answer, end = asyncio.wrap_future(queued.future), loop.time() + service.limits.deadline
    answer.add_done_callback(lambda done: parts.put_nowait(done))
    gone = asyncio.ensure_future(disconnection(request))
    try:
        while True:
            part = asyncio.ensure_future(parts.get())
            waited: set[asyncio.Future[Any]] = {part, gone}
            await asyncio.wait(waited, timeout=max(0.0, end - loop.time()), return_when=asyncio.FIRST_COMPLETED)
            if not part.done():
                part.cancel()
                raise ClientDisconnect if gone.done() else DeadlineError(service.limits.deadline)
            if part.result() is answer:
                yield Finished(answer.result()[0])
                return
            yield part.result()
    finally:
        gone.cancel()
        trace.computed(queued, loop.time() - begin)
        if not answer.done():
            served.engine.cancel(queued)
            answer.cancel()


class EventStream(Response):
    """Server-sent events: `token` for each part, then `done` with the answer, or `error`.

    name_of: the fields of the event of a part. seconds: until a client that does not read is cut off.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        first: Any,
        others: AsyncIterator[Any],
        part_json: Callable[[Any], Sequence[dict[str, Any]]],
        done_json: Callable[[Any], dict[str, Any]],
        seconds: float,
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._first, self._others, self._part, self._done, self._seconds = first, others, part_json, done_json, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with asyncio.timeout(self._seconds):
                await self._send_events(scope, send)
        except TimeoutError:  # the client does not read: the connection is closed without an end of the response
            return
        finally:
            await self._others.aclose()  # type: ignore[attr-defined]
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_events(self, scope: Scope, send: Send) -> None:
        try:
            await send(_body(self._events(self._first)))
            async for part in self._others:
                await send(_body(self._events(part)))
        except ClientDisconnect:
            return
        except UserError as error:
            await send(_body(_event("error", error_body(error, status_of(error), scope).decode())))
        except Exception as error:
            await send(_body(_event("error", error_body(FAULT, FAULT.status, scope).decode())))
            if not isinstance(error, NonFiniteAnswerError):
                raise

    def _events(self, part: Any) -> str:
        if isinstance(part, Finished):
            return _event("done", _written(self._done(part.answer)))
        return "".join(_event("token", _written(one)) for one in self._part(part))


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"


def _body(text: str) -> dict[str, Any]:
    return {"type": "http.response.body", "body": text.encode(), "more_body": True}


def _written(value: Any) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    except ValueError:
        raise NonFiniteAnswerError("the answer has numbers that are not finite") from None
