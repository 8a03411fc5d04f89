"""A request in the queue: its inputs, and what is known of its answers."""

import itertools
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

_numbers = itertools.count()


@dataclass(frozen=True)
class Item:
    """One input. size: its tokens or pixels. group: only inputs of the same group share a batch."""

    value: Any
    size: int
    group: Hashable = None


class QueuedRequest:
    """The inputs that a client sent together, and the future of their answers.

    rank: requests are computed in the order of their ranks. deadline: the time at which its client stops waiting.
    """

    def __init__(self, items: Sequence[Item], rank: float, arrival: float, deadline: float) -> None:
        self.items, self.arrival, self.deadline = items, arrival, deadline
        self.order = (rank, next(_numbers))
        self.future: Future[list[Any]] = Future()
        self.future.set_running_or_notify_cancel()  # from now on only the engine ends it
        self.taken = 0  # items that are in a batch or were in one
        self._answers: dict[int, Any] = {}

    @property
    def waiting(self) -> int:
        """The tokens or pixels that are in no batch yet."""
        return sum(item.size for item in self.items[self.taken :])

    def record(self, index: int, answer: Any) -> None:
        """Record the answer of one input; an exception is the answer of the whole request."""
        if isinstance(answer, Exception):
            self.fail(answer)
            return
        self._answers[index] = answer
        if len(self._answers) == len(self.items) and not self.future.done():
            self.future.set_result([self._answers[number] for number in range(len(self.items))])

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
