"""A batch that is split over several processes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from patchword.training.batch import Batch

Gather = Callable[[Tensor], list[Tensor]]  # all-gather: one tensor per process


@dataclass(frozen=True)
class SharedBatch:
    """The samples of this process, with the counts of the whole batch.

    Objectives divide by the counts of the batch they are given, so that the losses of all processes add up to the mean
    over the whole batch, however unevenly samples and words are split.

    lengths: samples per process. answers: the labels of all samples, if each has one, on the device.
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
        """The labels of all samples; if they are no classes, an empty tensor of the length of the whole batch."""
        return torch.empty(len(self), 0) if self.answers is None else self.answers

    @property
    def samples(self) -> Tensor:
        """The samples of this process."""
        found: Tensor = self.own.samples
        return found

    def split(self, parts: int) -> Sequence[Any]:
        """Split into the same number of micro-batches on every process, since some models synchronize in each."""
        micro_batches: Sequence[Any] = self.own.split(common_split(self.lengths, parts))
        return micro_batches


def common_split(lengths: Sequence[int], parts: int) -> int:
    """Return the largest number up to `parts` into which torch.chunk splits each of these lengths."""
    for number in range(parts, 1, -1):
        if all(-(-length // -(-length // number)) == number for length in lengths):
            return number
    return 1


def with_global_counts(batch: Batch, gather: Gather) -> SharedBatch:
    """Return the batch with the counts of all processes, which are gathered in CPU memory."""
    labels = _labels(batch)
    own = torch.tensor([batch.weight, getattr(batch, "tokens", 0), _length(batch)], dtype=torch.int64)
    counts = torch.stack(gather(own))
    lengths = tuple(counts[:, 2].tolist())
    answers = None
    if labels is not None:
        padded = torch.nn.functional.pad(labels, (0, max(lengths) - len(labels)))
        parts = [part[:length] for part, length in zip(gather(padded), lengths, strict=True)]
        answers = torch.cat(parts).to(batch.device)
    return SharedBatch(batch, int(counts[:, 0].sum()), int(counts[:, 1].sum()), lengths, answers)


def all_with_global_counts(batches: Iterator[Batch], gather: Gather) -> Iterator[SharedBatch]:
    return (with_global_counts(batch, gather) for batch in batches)


def _length(batch: Any) -> int:
    """Return the number of samples of a batch or of named tensors."""
    return len(batch.samples) if hasattr(batch, "samples") else len(batch)


def _labels(batch: Any) -> Tensor | None:
    """Return the labels if they are integers, that is classes, which an objective may weight; else None."""
    labels = getattr(batch, "labels", None)
    if labels is None or labels.ndim != 1 or labels.is_floating_point():
        return None
    found: Tensor = labels.cpu().long()
    return found
