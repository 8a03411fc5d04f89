"""What is known of one request: for the access log, and for the latency of each stage in the metrics."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, ParamSpec, TypeVar

from starlette.types import Scope

from patchword.serving.engine.request import Item, QueuedRequest

Stage = Literal["tokenise", "queue", "compute", "write"]
STAGES: tuple[Stage, ...] = ("tokenise", "queue", "compute", "write")
P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Trace:
    """seconds: by stage, as far as the request came.

    tokenise: texts are tokenised, or images decoded. queue: its inputs wait, also between two tokens. compute: the
    batches with its inputs. write: from the start of the response to its end, so a stream's includes its tokens.
    """

    model: str | None = None
    inputs: int = 0
    seconds: dict[Stage, float] = field(default_factory=dict)

    def asks(self, model: str, items: Sequence[Item]) -> None:
        """Take note of what a model is asked, before it is admitted or refused."""
        self.model, self.inputs = model, len(items)

    def computed(self, request: QueuedRequest, seconds: float) -> None:
        """Take note of what the engine did. seconds: from the admission to the end"""
        self.seconds["compute"] = request.computed
        self.seconds["queue"] = max(0.0, seconds - request.computed)

    def record(self, request_id: str, method: str, route: str, status: int, seconds: float) -> dict[str, Any]:
        """Return the line of the access log. It has no addresses, no contents and no text of the client but its id."""
        stages = {f"{stage}_seconds": round(self.seconds[stage], 6) for stage in STAGES if stage in self.seconds}
        return {
            "request_id": request_id,
            "method": method,
            "route": route,
            "model": self.model,
            "inputs": self.inputs,
            "status": status,
            "seconds": round(seconds, 6),
            **stages,
        }


def trace_of(scope: Scope) -> Trace:
    """Return the trace of a request, which its guard began."""
    found = scope["state"]["trace"]
    assert isinstance(found, Trace), "the guard of the routes sets it"
    return found


async def tokenised(scope: Scope, work: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """Tokenise or decode in a thread, so that other requests are answered meanwhile."""
    begin = time.monotonic()
    try:
        return await asyncio.to_thread(work, *arguments, **options)
    finally:
        trace_of(scope).seconds["tokenise"] = time.monotonic() - begin
