"""Reads the samples of the next batches with threads while the model trains on one."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from patchword.core.work_sharing import WorkSharing
from patchword.data.randomness import order

S = TypeVar("S")
J = TypeVar("J")
BatchPart = tuple[int, Tensor]
"""The number of the pass over the data, and the samples of a batch."""
_AHEAD = 3  # batches that are read while one is trained on


@dataclass(frozen=True, eq=False)
class ImageBatch:
    """Images on the device: (batch, channels, height, width), normalized and padded."""

    images: Tensor

    @property
    def weight(self) -> int:
        return len(self.images)

    @property
    def device(self) -> torch.device:
        return self.images.device


def epoch_parts(
    count: int, size: int, passes: range, seed: int, group: WorkSharing, first: int = 0
) -> Sequence[BatchPart]:
    """Return this process's part of the batches of one epoch, from number `first`.

    count: samples of the data set. size: of a batch; an incomplete last batch of a pass is dropped.
    """
    steps = max(1, count // size)
    ordered = ((one, order(seed, one, count).split(size)[:steps]) for one in passes)
    return [(one, group.share(part)) for one, whole in ordered for part in whole][first:]


def read_ahead(
    parts: Sequence[BatchPart], read: Callable[[int, int], S], join: Callable[[Sequence[S]], J]
) -> Iterator[J]:
    """Yield the joined samples of each batch. read: of a pass and an index. join: samples to a batch."""
    # One thread per batch joins samples that the other threads read; each computes with one core.
    with reading_threads() as readers, reading_threads(_AHEAD) as joiners:

        def join_read(reads: Sequence[Future[S]]) -> J:
            return join([future.result() for future in reads])

        def submit(one: int, part: Tensor) -> Future[J]:
            return joiners.submit(join_read, [readers.submit(read, one, index) for index in part.tolist()])

        pending = [submit(*part) for part in parts[:_AHEAD]]
        try:
            for number in range(len(parts)):
                joined = pending.pop(0).result()
                pending += [submit(*later) for later in parts[number + _AHEAD : number + _AHEAD + 1]]
                yield joined
        finally:
            for pool in (joiners, readers):
                pool.shutdown(wait=False, cancel_futures=True)


def reading_threads(count: int | None = None) -> ThreadPoolExecutor:
    """Return threads that compute with one core each. count: None for one thread per core that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(count or cores, initializer=torch.set_num_threads, initargs=(1,))
