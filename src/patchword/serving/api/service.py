"""The models that are served, and one request to them: its place in a queue, its deadline, its client."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request

from patchword.core.errors import nearest
from patchword.serving.api.errors import UnknownModelError
from patchword.serving.api.metrics import Metrics
from patchword.serving.api.trace import trace_of
from patchword.serving.engine.errors import DeadlineError, DrainingError
from patchword.serving.engine.request import Item
from patchword.serving.models.opening import Served


@dataclass(frozen=True)
class ServiceLimits:
    """Limits of a request. deadline: seconds until it is answered. texts, images: inputs. body_bytes: of its body."""

    deadline: float = 30.0
    texts: int = 2_048
    images: int = 16
    body_bytes: int = 8_000_000
    body_seconds: float = 20.0


class Service:
    """The served models by their names, and what is counted of their requests.

    log_access: called with the fields of each request when it has ended
    """

    def __init__(
        self,
        served: Mapping[str, Served],
        limits: ServiceLimits = ServiceLimits(),
        log_access: Callable[[dict[str, Any]], None] = lambda fields: None,
    ) -> None:
        self.served, self.limits, self.metrics = dict(served), limits, Metrics()
        self.log_access = log_access
        self.is_draining = False
        self.open_requests = 0

    @property
    def is_ready(self) -> bool:
        return not self.is_draining and all(one.engine.is_alive for one in self.served.values())

    @property
    def is_idle(self) -> bool:
        return not self.open_requests and all(one.engine.is_idle for one in self.served.values())

    def start(self) -> None:
        for one in self.served.values():
            one.engine.start()

    def drain(self) -> None:
        """Refuse new requests; those that were admitted are answered."""
        self.is_draining = True
        for one in self.served.values():
            one.engine.close()

    def stop(self) -> None:
        """End the engines; what still waits fails."""
        self.drain()
        for one in self.served.values():
            one.engine.stop()

    def join(self, seconds: float) -> None:
        """Wait until the engines have ended."""
        for one in self.served.values():
            one.engine.join(seconds)

    def find(self, name: str | None) -> Served:
        """Return a model by its name; without a name, the only one. One whose queue is full is an error at once."""
        found = self._named(name)
        found.engine.check()
        return found

    def _named(self, name: str | None) -> Served:
        if self.is_draining:
            raise DrainingError
        if name is None:
            if len(self.served) == 1:
                return next(iter(self.served.values()))
            expected = f"one of {', '.join(self.served)}"
            hint = 'name it in the field "model", or ask /models/NAME/predict'
            raise UnknownModelError("several models are served", expected=expected, got="no name", hint=hint)
        return self.named(name)

    def named(self, name: str) -> Served:
        """Return a model by its name, also while the server drains."""
        if name not in self.served:
            raise UnknownModelError(f"no model {name[:80]!r} is served", hint=nearest(name[:80], self.served))
        return self.served[name]

    async def answer(self, request: Request, served: Served, items: Sequence[Item]) -> list[Any]:
        """Return the answers of a model. A client that hangs up frees its place, and ClientDisconnect is raised."""
        trace, begin = trace_of(request.scope), time.monotonic()
        trace.asks(served.model.name, items)
        queued = served.engine.submit(items, self.limits.deadline)
        answers = asyncio.wrap_future(queued.future)
        gone = asyncio.ensure_future(disconnection(request))
        try:
            waited: set[asyncio.Future[Any]] = {answers, gone}
            await asyncio.wait(waited, timeout=self.limits.deadline, return_when=asyncio.FIRST_COMPLETED)
            if answers.done():
                return answers.result()
            if gone.done():
                raise ClientDisconnect
            raise DeadlineError(self.limits.deadline)
        finally:
            gone.cancel()
            trace.computed(queued, time.monotonic() - begin)
            if not answers.done():
                served.engine.cancel(queued)
                answers.cancel()


async def disconnection(request: Request) -> None:
    """Return when the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)
