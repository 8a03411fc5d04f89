"""Measured at the start: torch's threads for a batch, since a short text is faster with few, and the largest batch."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from patchword.serving.engine.engine import Compute
from patchword.serving.engine.request import Item

_SECONDS = 0.3  # per measured number of threads
_MARGIN = 0.95  # more threads must take at most this share of the time with fewer, and so must larger batches
_LONGEST, _LARGEST = 0.25, 4  # seconds of a larger batch, since others wait for it; how much larger than the smallest


@dataclass(frozen=True)
class Measured:
    """What a machine does with a model.

    size: tokens or pixels of a batch that has the threads `full`; one input has `single`. budget: of the largest batch.
    per_second: tokens or pixels in it.
    """

    size: int
    per_second: float
    full: int
    single: int
    budget: int


def measure(
    compute: Compute,
    batch: Sequence[Item],
    candidates: Sequence[int],
    clock: Callable[[], float] = time.perf_counter,
    set_threads: Callable[[int], None] = torch.set_num_threads,
) -> Measured:
    """Measure a batch and its first input alone with each number of threads, from the fewest; then larger batches."""

    def best_of(items: Sequence[Item]) -> tuple[int, float]:
        chosen, least = candidates[0], float("inf")
        for threads in candidates:
            set_threads(threads)
            seconds = _fastest(lambda: compute(items), clock)
            if seconds < least * _MARGIN:
                chosen, least = threads, seconds
        return chosen, max(least, 1e-9)

    full, seconds = best_of(batch)
    single, _ = best_of(batch[:1])
    set_threads(full)
    times = 1
    while 2 * times <= _LARGEST and 2 * seconds <= _LONGEST:
        twice = _fastest(partial(compute, [*batch] * (2 * times)), clock)
        if twice > 2 * seconds * _MARGIN:
            break
        times, seconds = 2 * times, twice
    size = sum(item.size for item in batch)
    return Measured(size, size * times / seconds, full, single, size * times)


def _fastest(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the shortest time of several, after one that is not counted."""
    work()
    begin, least = clock(), float("inf")
    while True:
        start = clock()
        work()
        now = clock()
        least = min(least, now - start)
        if now - begin >= _SECONDS:
            return least


class ThreadedCompute:
    """Computes batches with the measured numbers of threads, which torch keeps for each thread that calls it."""

    def __init__(
        self, compute: Compute, measured: Measured, set_threads: Callable[[int], None] = torch.set_num_threads
    ) -> None:
        self._compute, self._measured, self._set = compute, measured, set_threads
        self._current = 0

    def __call__(self, items: Sequence[Item]) -> Sequence[Any]:
        is_full = 2 * sum(item.size for item in items) >= self._measured.size
        wanted = self._measured.full if is_full else self._measured.single
        if wanted != self._current:
            self._set(wanted)
            self._current = wanted
        return self._compute(items)
