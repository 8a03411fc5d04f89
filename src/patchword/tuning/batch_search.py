"""The search for a batch size, apart from the steps that it tries."""

from collections.abc import Callable
from dataclasses import dataclass

from patchword.core.errors import UserError

GAIN = 1.1  # on a CPU: how much faster twice the batch must be, per sample


@dataclass(frozen=True)
class BatchTrial:
    """Steps with one batch size. memory: bytes. seconds: per step"""

    size: int
    memory: int
    seconds: float

    @property
    def rate(self) -> float:
        """Samples (or tokens, as the recipe counts them) per second."""
        return self.size / self.seconds


@dataclass(frozen=True)
class FoundBatch:
    """A batch size, and why it is not larger."""

    trial: BatchTrial
    reason: str


@dataclass(frozen=True)
class BatchSearch:
    """Doubles the batch size from `first` on, until memory, speed or `most` ends it; halves it if `first` is too large.

    limit: bytes that a step may need, with head-room; None if the system does not report it. most: the largest size.
    on_cpu: a full memory would stop the machine, so a size that is expected to exceed the limit is not tried; and a
    larger batch must be faster per sample, because a CPU is busy with a small one already.
    """

    first: int
    most: int
    limit: int | None
    on_cpu: bool

    def run(self, attempt: Callable[[int], BatchTrial | None]) -> FoundBatch:
        """Return the batch size. attempt: takes steps with a batch size; None if the memory is full"""
        best = self._attempt(self.first, attempt)
        if best is None:
            return self._smaller(attempt)
        while 2 * best.size <= self.most:
            if self.on_cpu and not self._fits(2 * best.memory):
                return FoundBatch(best, "twice as many are expected to exceed the memory")
            larger = self._attempt(2 * best.size, attempt)
            if larger is None:
                return FoundBatch(best, "twice as many do not fit into memory with head-room")
            if self.on_cpu and larger.rate < GAIN * best.rate:
                return FoundBatch(best, "twice as many are hardly faster on this CPU")
            best = larger
        return FoundBatch(best, "with more, an epoch would have too few steps")

    def _smaller(self, attempt: Callable[[int], BatchTrial | None]) -> FoundBatch:
        size = self.first // 2
        while size:
            if (found := self._attempt(size, attempt)) is not None:
                return FoundBatch(found, "twice as many do not fit into memory with head-room")
            size //= 2
        raise UserError(
            "not even the smallest batch fits into memory", hint="use a smaller model, or activation_checkpointing=true"
        )

    def _attempt(self, size: int, attempt: Callable[[int], BatchTrial | None]) -> BatchTrial | None:
        found = attempt(size)
        return found if found is not None and self._fits(found.memory) else None

    def _fits(self, memory: int) -> bool:
        return self.limit is None or memory <= self.limit
