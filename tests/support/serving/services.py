"""Services of tiny models, and of a model that a test holds up."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

import torch

from patchword.pipelines.interface import Pipeline
from patchword.serving.api.app import build_app
from patchword.serving.api.guard import ApiAccess
from patchword.serving.api.service import Service, ServiceLimits
from patchword.serving.engine.engine import Engine
from patchword.serving.engine.queue import QueueLimits, WorkQueue
from patchword.serving.engine.request import Item
from patchword.serving.engine.speed import Speed
from patchword.serving.engine.threads import Measured
from patchword.serving.models.opening import Served, serve_pipeline
from patchword.serving.models.served import ServedModel
from support.serving.client import HOST, Client

FAST = Measured(1, 1e9, torch.get_num_threads(), torch.get_num_threads(), 256)  # nothing is refused
PATIENT = 60.0


class HeldModel(ServedModel):
    """Repeats texts, one second of work each, and waits for the test at each batch. "poison" raises."""

    name, reads, unit, abilities, budget, is_on_cpu = "held", "texts", "tokens", ("predict",), 4, True

    def __init__(self) -> None:
        self.begun, self.go_on, self.batches = Event(), Event(), list[list[str]]()

    def describe(self) -> dict[str, Any]:
        return {}

    def items(self, inputs: Sequence[Any], top: int) -> list[Item]:
        return [Item(one.text, 1) for one in inputs]

    def sample(self) -> list[Item]:
        return []

    def compute(self, items: Sequence[Item]) -> Sequence[Any]:
        texts = [item.value for item in items]
        self.batches.append(texts)
        self.begun.set()
        assert self.go_on.wait(PATIENT)
        if "poison" in texts:
            raise ValueError("a poisoned text")
        return [float("nan") if text == "nan" else text for text in texts]

    def served(self, queue: float = 2.0) -> Served:
        """Return it with an engine, which holds so many seconds."""
        engine = Engine(self.name, self.compute, WorkQueue(QueueLimits(4, queue), Speed(1, 4)))
        return Served(self, engine, FAST)


def of_pipelines(**opened: Pipeline) -> dict[str, Served]:
    return {name: serve_pipeline(name, one, measured=lambda model: FAST) for name, one in opened.items()}


@contextmanager
def running(
    served: dict[str, Served], limits: ServiceLimits = ServiceLimits(), token: str | None = None
) -> Iterator[tuple[Service, Client]]:
    """Yield a service whose engines run, and a client of it."""
    service = Service(served, limits)
    access = ApiAccess(frozenset([HOST]), frozenset([f"http://{HOST}"]), token)
    service.start()
    try:
        yield service, Client(build_app(service, access))
    finally:
        service.stop()
        service.join(PATIENT)
