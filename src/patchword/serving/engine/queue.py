"""The queue of one model: which requests it admits, and which inputs form the next batch."""

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchword.serving.engine.errors import DrainingError, QueueFullError, TooMuchWorkError
from patchword.serving.engine.request import Item, QueuedRequest, Report
from patchword.serving.engine.speed import Speed


@dataclass(frozen=True)
class QueueLimits:
    """Limits of a queue. budget: tokens or pixels of a batch. seconds, requests: what may be waiting."""

    budget: int
    seconds: float = 2.0
    requests: int = 512


@dataclass(frozen=True)
class Batch:
    """Inputs of one group that are computed together: each with its request and its index there."""

    parts: tuple[tuple[QueuedRequest, int], ...]

    @property
    def items(self) -> list[Item]:
        return [request.items[index] for request, index in self.parts]

    @property
    def size(self) -> int:
        """The tokens or pixels that are computed now."""
        return sum(item.per_batch for item in self.items)

    @property
    def left(self) -> int:
        """The tokens or pixels that are left of its inputs, with those that are computed now."""
        return sum(request.left(index) for request, index in self.parts)


class WorkQueue:
    """Requests in the order of their ranks. It has no clock, no lock and no thread: the engine has them.

    A request's rank is the time at which it would be answered if it were alone. So a short request overtakes a long
    one that came shortly before, and a long one is overtaken only for as long as it takes itself: no request starves.
    """

    def __init__(self, limits: QueueLimits, speed: Speed) -> None:
        self.limits, self.speed = limits, speed
        self.is_closed = False
        self._requests: list[QueuedRequest] = []
        self._running = 0

    def __len__(self) -> int:
        """Return the number of requests with inputs that wait."""
        return len(self._requests)

    @property
    def is_idle(self) -> bool:
        return not self._requests and not self._running

    @property
    def size(self) -> int:
        """The tokens or pixels that wait or are computed."""
        return self._running + sum(request.waiting for request in self._requests)

    @property
    def seconds(self) -> float:
        """How long it takes to compute what is in the queue."""
        return self.speed.seconds(self.size)

    def check(self) -> None:
        """Raise why any request is refused now; inputs need not be read for that."""
        if self.is_closed:
            raise DrainingError
        ahead = self.seconds
        if len(self) >= self.limits.requests or ahead > self.limits.seconds:
            raise QueueFullError(ahead, self.limits.seconds, math.ceil(max(ahead - self.limits.seconds, 1.0)))

    def admit(self, items: Sequence[Item], now: float, patience: float, report: Report | None = None) -> QueuedRequest:
        """Append a request, or raise why it is refused. patience: seconds that its client waits"""
        own, ahead = self.speed.seconds(sum(item.size for item in items)), self.seconds
        if own > patience and not self.is_closed:
            raise TooMuchWorkError(own, patience)
        self.check()
        if ahead + own > patience:
            raise QueueFullError(ahead, self.limits.seconds, math.ceil(max(ahead + own - patience, 1.0)))
        request = QueuedRequest(items, now + own, now, now + patience, report)
        self._insert(request)
        return request

    def put_back(self, request: QueuedRequest, index: int, progress: Any) -> None:
        """Queue an input again that needs another batch. Its request keeps its rank."""
        request.put_back(index, progress)
        if request not in self._requests:
            self._insert(request)

    def remove(self, request: QueuedRequest) -> None:
        """Free the place of a request whose client is gone; inputs that are computed already stay in their batch."""
        if request in self._requests:
            self._requests.remove(request)

    def remove_late(self, now: float) -> list[QueuedRequest]:
        """Remove and return the requests whose deadline has passed."""
        late = [request for request in self._requests if request.deadline <= now]
        self._requests = [request for request in self._requests if request.deadline > now]
        return late

    def remove_all(self) -> list[QueuedRequest]:
        found, self._requests = self._requests, []
        return found

    def take(self) -> Batch | None:
        """Return the next batch: inputs from the front while they fit the budget. An input that is larger goes alone.

        It never waits for a batch to fill.
        """
        if not self._requests:
            return None
        first = self._requests[0]
        group, room = first.items[first.pending[0]].group, self.limits.budget
        parts: list[tuple[QueuedRequest, int]] = []
        for request in self._requests:
            while request.pending:
                item = request.items[request.pending[0]]
                if item.group != group or (parts and item.per_batch > room):
                    break
                parts.append((request, request.pending.popleft()))
                room -= item.per_batch
            if room <= 0 or (request.pending and request.items[request.pending[0]].group == group):
                break
        self._requests = [request for request in self._requests if request.pending]
        batch = Batch(tuple(parts))
        self._running = batch.left
        return batch

    def finish(self, batch: Batch, seconds: float | None) -> None:
        """Take note of a batch; requests that failed in it have nothing left to wait for. seconds: None if it failed"""
        self._running = 0
        if seconds is not None:
            self.speed.observe(batch.size, seconds)
        self._requests = [request for request in self._requests if not request.future.done()]

    def _insert(self, request: QueuedRequest) -> None:
        insort(self._requests, request, key=lambda one: one.order)
