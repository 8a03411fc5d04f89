"""A request in the queue: its inputs, and what is known of its answers."""

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

_numbers = itertools.count()


@dataclass(frozen=True)
class Item:
    """One input. size: its tokens or pixels. group: only inputs of the same group share a batch.

    portion: the part of the size that one batch computes of an input that takes several, e.g. one token of a text that
    is generated; None: all of it.
    """

    value: Any
    size: int
    group: Hashable = None
    portion: int | None = None

    @property
    def per_batch(self) -> int:
        return self.size if self.portion is None else self.portion


@dataclass(frozen=True)
class Unfinished:
    """An answer that needs another batch: its input goes back to the queue. progress: for who waits, e.g. a token."""

    progress: Any


Report = Callable[[Any], None]


class QueuedRequest:
    """The inputs that a client sent together, and the future of their answers.

    rank: requests are computed in the order of their ranks. deadline: the time at which its client stops waiting.
    report: called in the engine's thread with the progress of unfinished answers.
    """

    def __init__(
        self, items: Sequence[Item], rank: float, arrival: float, deadline: float, report: Report | None = None
    ) -> None:
        self.items, self.arrival, self.deadline, self._report = items, arrival, deadline, report
        self.order = (rank, next(_numbers))
        self.future: Future[list[Any]] = Future()
        self.future.set_running_or_notify_cancel()  # from now on only the engine ends it
        self.computed = 0.0  # seconds of the batches with its items
        self.pending = deque(range(len(items)))  # items that are in no batch and have no answer
        self._left = [item.size for item in items]
        self._begun: set[int] = set()  # items of which a portion is computed
        self._answers: dict[int, Any] = {}

    @property
    def waiting(self) -> int:
        """The tokens or pixels that are in no batch yet."""
        return sum(self._left[index] for index in self.pending)

    def left(self, index: int) -> int:
        """Return the tokens or pixels that are left of an item."""
        return self._left[index]

    def is_new(self, index: int) -> bool:
        """Whether no batch has computed a part of an item."""
        return index not in self._begun

    def put_back(self, index: int, progress: Any) -> None:
        """Take note that a batch has computed a portion of an item, which waits for the next."""
        portion = self.items[index].per_batch
        self._left[index] = max(portion, self._left[index] - portion)
        self._begun.add(index)
        self.pending.append(index)
        if self._report is not None:
            self._report(progress)

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
