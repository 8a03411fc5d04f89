"""A batch that several processes work on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from patchword.training.step import Batch

Gather = Callable[[Tensor], list[Tensor]]  # one tensor of each process, to all


@dataclass(frozen=True)
class Shared:
    """The part that this process works on, with the counts of the whole batch.

    Objectives divide by the counts of the batch they are given, so that the losses of all processes add up to the mean
    over the whole batch, however unevenly its samples and words are dealt out.

    lengths: samples of each process. answers: the labels of all samples where each has one, on the device.
    """

    own: Any
    weight: int
    tokens: int
    lengths: tuple[int, ...]
    answers: Tensor | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return sum(self.lengths)

    @property
    def device(self) -> torch.device:
        found: torch.device = self.own.device
        return found

    @property
    def labels(self) -> Tensor:
        """as many as the whole batch has; only their number is told"""
        return torch.empty(len(self), 0)

    @property
    def samples(self) -> Tensor:
        """that this process works on"""
        found: Tensor = self.own.samples
        return found

    def split(self, parts: int) -> Sequence[Any]:
        """In as many pieces on every process, since all meet inside of some models."""
        pieces: Sequence[Any] = self.own.split(alike(self.lengths, parts))
        return pieces


def alike(lengths: Sequence[int], parts: int) -> int:
    """The largest number of pieces, `parts` at most, that chunks of every one of these lengths come to."""
    for number in range(parts, 1, -1):
        if all(-(-length // -(-length // number)) == number for length in lengths):
            return number
    return 1


def shared(batch: Batch, gather: Gather) -> Shared:
    """What the processes need to know of each other's parts, exchanged in the main memory: a few numbers."""
    labels = _labels(batch)
    own = torch.tensor([batch.weight, getattr(batch, "tokens", 0), _length(batch)], dtype=torch.int64)
    told = torch.stack(gather(own))
    lengths = tuple(told[:, 2].tolist())
    answers = None
    if labels is not None:
        padded = torch.nn.functional.pad(labels, (0, max(lengths) - len(labels)))
        parts = [part[:length] for part, length in zip(gather(padded), lengths, strict=True)]
        answers = torch.cat(parts).to(batch.device)
    return Shared(batch, int(told[:, 0].sum()), int(told[:, 1].sum()), lengths, answers)


def all_shared(batches: Iterator[Batch], gather: Gather) -> Iterator[Shared]:
    return (shared(batch, gather) for batch in batches)


def _length(batch: Any) -> int:
    """of a batch or of named tensors"""
    return len(batch.samples) if hasattr(batch, "samples") else len(batch)


def _labels(batch: Any) -> Tensor | None:
    """Whole numbers alone: they are classes, which may count differently."""
    labels = getattr(batch, "labels", None)
    if labels is None or labels.ndim != 1 or labels.is_floating_point():
        return None
    found: Tensor = labels.cpu().long()
    return found
