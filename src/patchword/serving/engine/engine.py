"""Answers requests in batches: one thread per model."""

import logging
import time
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any

from patchword.serving.engine.errors import CancelledRequestError, DeadlineError, DrainingError
from patchword.serving.engine.queue import Batch, WorkQueue
from patchword.serving.engine.request import Item, QueuedRequest, Report, Unfinished
from patchword.serving.engine.stats import EngineStats

# Computes the inputs of a batch, all of one group: one answer per input, an exception for one that fails, or
# Unfinished for one that needs another batch.
Compute = Callable[[Sequence[Item]], Sequence[Any]]

log = logging.getLogger(__name__)


class Engine:
    """Computes what is in a queue, batch by batch.

    >>> engine = Engine("minilm", compute, WorkQueue(QueueLimits(budget=256), Speed(2_000, 256)))
    >>> engine.start()
    >>> engine.submit([Item("a text", size=4)], patience=30).future.result()

    An input may need many batches, such as a text that is generated token by token: in between it waits in the queue,
    so that others have their turn, and its deadline and its cancellation count at every token.

    Every admitted request is answered or fails with a reason. A batch that raises is computed again, one input at a
    time, so that only the requests of the faulty inputs fail.
    """

    def __init__(
        self, name: str, compute: Compute, queue: WorkQueue, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name, self.stats = name, EngineStats()
        self._compute, self._queue, self._clock = compute, queue, clock
        self._changed = Condition()
        self._thread: Thread | None = None
        self._is_stopped = False

    @property
    def is_alive(self) -> bool:
        """Whether there is a thread that computes."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_idle(self) -> bool:
        with self._changed:
            return self._queue.is_idle

    @property
    def load(self) -> tuple[int, float, float]:
        """The requests that wait, the seconds of work in the queue, and the tokens or pixels per second."""
        with self._changed:
            return len(self._queue), self._queue.seconds, self._queue.speed.per_second

    def check(self) -> None:
        """Raise why any request is refused now, before its inputs are tokenised or decoded."""
        with self._changed:
            self._queue.check()

    def submit(self, items: Sequence[Item], patience: float, report: Report | None = None) -> QueuedRequest:
        """Admit a request, or raise why it is refused. patience: seconds until its deadline

        report: called in the engine's thread with the progress of inputs that need several batches
        """
        with self._changed:
            request = self._queue.admit(items, self._clock(), patience, report)
            self._changed.notify()
            return request

    def cancel(self, request: QueuedRequest) -> None:
        """Free the place of a request whose client is gone."""
        with self._changed:
            if request.future.done():
                return
            self._queue.remove(request)
            self.stats.cancelled += 1
            request.fail(CancelledRequestError())

    def start(self) -> None:
        self._thread = Thread(target=self._loop, name=f"engine {self.name}")
        self._thread.start()

    def close(self) -> None:
        """Admit no more requests. Those that were admitted are still answered."""
        with self._changed:
            self._queue.is_closed = True

    def stop(self) -> None:
        """End the thread after its batch; what still waits fails."""
        with self._changed:
            self._queue.is_closed = self._is_stopped = True
            for request in self._queue.remove_all():
                request.fail(DrainingError())
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.join(seconds)

    def step(self) -> bool:
        """Compute one batch; False if nothing waits."""
        with self._changed:
            now = self._clock()
            for request in self._queue.remove_late(now):
                self.stats.late += 1
                request.fail(DeadlineError(request.deadline - request.arrival))
            batch = self._queue.take()
        if batch is None:
            return False
        answers = self._answers(batch)
        with self._changed:
            seconds = self._clock() - now
            for request in {id(request): request for request, _ in batch.parts}.values():
                request.computed += seconds
            for (request, index), answer in zip(batch.parts, answers, strict=True):
                if request.is_new(index):
                    self.stats.queued.observe(now - request.arrival)
                if not isinstance(answer, Unfinished):
                    self.stats.items += 1
                    request.record(index, answer)
                elif self._is_stopped:
                    request.fail(DrainingError())
                elif not request.future.done():
                    self._queue.put_back(request, index, answer.progress)
            failed = any(isinstance(answer, Exception) for answer in answers)  # which says nothing about the speed
            self._queue.finish(batch, None if failed else seconds)
            self._count(batch, seconds)
        return True

    def _answers(self, batch: Batch) -> Sequence[Any]:
        items = batch.items
        found = self._attempt(items)
        if not isinstance(found, Exception):
            return found
        if len(items) == 1:
            return [found]
        log.warning("a batch of %s failed (%r); its %d inputs are computed alone", self.name, found, len(items))
        self.stats.retried += len(items)
        alone = (self._attempt([item]) for item in items)
        return [one if isinstance(one, Exception) else one[0] for one in alone]

    def _attempt(self, items: Sequence[Item]) -> Sequence[Any] | Exception:
        """Return the answers, or what was raised: nothing may end the thread."""
        try:
            found = self._compute(items)
            if len(found) != len(items):
                raise RuntimeError(f"{len(items)} inputs have {len(found)} answers")
            return found
        except Exception as error:
            return error
        except BaseException as error:  # such as SystemExit, which would end the thread
            return RuntimeError(repr(error))

    def _count(self, batch: Batch, seconds: float) -> None:
        self.stats.batches += 1
        self.stats.size += batch.size
        self.stats.computed.observe(seconds)

    def _loop(self) -> None:
        while True:
            with self._changed:
                while not len(self._queue) and not self._is_stopped:
                    self._changed.wait()
                if self._is_stopped:
                    return
            self.step()
