"""Work done ahead of the one who asks for it."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import torch

Item = TypeVar("Item")
Made = TypeVar("Made")


def prefetched(make: Callable[[Item], Made], items: Iterable[Item], workers: int | None = None) -> Iterator[Made]:
    """make(item) of each, in order, some of them ahead in other threads."""
    left, workers = iter(items), workers or min(6, os.cpu_count() or 2)
    with ThreadPoolExecutor(workers, initializer=lambda: torch.set_num_threads(1)) as pool:
        ahead: deque[Future[Made]] = deque(pool.submit(make, item) for item in islice(left, 2 * workers))
        try:
            while ahead:
                yield ahead.popleft().result()
                ahead.extend(pool.submit(make, item) for item in islice(left, 1))
        finally:
            for waiting in ahead:
                waiting.cancel()
