"""Prefetching: compute items in other threads before they are needed."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch

Item = TypeVar("Item")
Made = TypeVar("Made")


def prefetch(make: Callable[[Item], Made], items: Sequence[Item], workers: int | None = None) -> Iterator[Made]:
    """Yield make(item) for each item in order, computed ahead in threads that use one core each."""
    workers = min(workers or min(6, os.cpu_count() or 2), len(items))
    if workers == 0:
        return
    threads, started = torch.get_num_threads(), Barrier(workers + 1)

    def alone() -> None:
        torch.set_num_threads(1)  # of this thread and also of every later one, so it is reset below
        started.wait()

    with ThreadPoolExecutor(workers, initializer=alone) as pool:
        ahead: deque[Future[Made]] = deque(pool.submit(make, item) for item in items[: 2 * workers])
        started.wait()
        torch.set_num_threads(threads)
        try:
            for following in range(2 * workers, len(items) + 2 * workers):
                yield ahead.popleft().result()
                ahead.extend(pool.submit(make, item) for item in items[following : following + 1])
                if not ahead:
                    break
        finally:
            for waiting in ahead:
                waiting.cancel()
