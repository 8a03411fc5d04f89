"""The models that the lab has opened. Each answers one request at a time; those not asked for long are closed."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import TypeVar

from starlette.exceptions import HTTPException

from patchword.lab.models import ListedModel, find_model
from patchword.pipelines.interface import Pipeline
from patchword.pipelines.opening import pipeline

MOST_OPEN = 4
MOST_WAITING = 8  # requests in progress, over all models; the page asks again after its last change
THREADS = 2  # two models answer at a time

T = TypeVar("T")


class OpenModels:
    """Opens models when they are first asked, and keeps the last ones.

    The interpreter waits for the threads before it ends; a thread that is still inside torch would abort the process.
    """

    def __init__(self, models: Mapping[str, ListedModel]) -> None:
        self._models = models
        self._open: OrderedDict[str, Pipeline] = OrderedDict()
        self._opening = Lock()
        self._locks = {id: Lock() for id in models}
        self._threads = ThreadPoolExecutor(THREADS, "model")
        self._waiting = 0

    async def ask(self, id: str, question: Callable[[Pipeline], T]) -> T:
        """Return the answer of a model. question: called in a thread; no other thread asks this model meanwhile."""
        find_model(self._models, id)
        return await self.run(partial(self._answer, id, question))

    async def run(self, work: Callable[[], T]) -> T:
        """Run work in one of the threads; too much work at a time is refused."""
        if self._waiting >= MOST_WAITING:
            raise HTTPException(429, "too many requests are in progress", {"retry-after": "1"})
        self._waiting += 1
        try:
            return await asyncio.wrap_future(self._threads.submit(work))
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Drop the requests that have not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answer(self, id: str, question: Callable[[Pipeline], T]) -> T:
        with self._locks[id]:
            return question(self._opened(id))

    def _opened(self, id: str) -> Pipeline:
        with self._opening:
            found = self._open.get(id)
            if found is None:
                found = self._open[id] = pipeline(find_model(self._models, id).source)
            self._open.move_to_end(id)
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
            return found
