"""Batches: which samples, in which order, from which place on."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.card import Preparation
from patchword.core.group import ALONE, Group, Lazily
from patchword.core.sending import sent
from patchword.data.augment import Augmentation, Changes, prepared
from patchword.data.augmentation.mixing import shares
from patchword.data.augmentation.views import Company, alone, company, dealt, epoch_of
from patchword.data.images import Held, Images

RESIDENT = 2 * 2**30  # a set up to this many bytes is put on the accelerator whole


class Batch(NamedTuple):
    """inputs (batch, channels, height, width) float32, labels, and the samples' numbers in the set

    labels: (batch,), or for mixed pictures (batch, classes), the share of each class.
    """

    inputs: Tensor
    labels: Tensor
    samples: Tensor

    @property
    def weight(self) -> int:
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        return self.inputs.device

    def first(self, count: int) -> "Batch":
        return Batch(*(tensor[:count] for tensor in self))

    def split(self, parts: int) -> list["Batch"]:
        pieces = zip(*(tensor.chunk(parts) for tensor in self), strict=True)
        return [Batch(*piece) for piece in pieces]


@dataclass(frozen=True)
class Batches:
    """The batches of a set. An epoch is a fixed order; a run can start in the middle of one."""

    images: Images
    size: int
    preparation: Preparation
    device: torch.device

    def on_device(self) -> "Batches":
        """The same, with the pixels moved to the accelerator once if they fit."""
        pixels = self.images.pixels
        if self.device.type == "cpu" or not isinstance(pixels, Held) or pixels.pixels.numel() > RESIDENT:
            return self
        labels = self.images.labels.to(self.device)
        moved = replace(self.images, pixels=Held(pixels.pixels.to(self.device)), labels=labels)
        return replace(self, images=moved)

    def __len__(self) -> int:
        return -(-len(self.images) // self.size)

    def whole(self) -> Sequence[Batch]:
        """Every sample once, in the set's own order, unchanged: for evaluation. Each is made when it is asked for."""
        parts = torch.arange(len(self.images), device=self.images.labels.device).split(self.size)
        return Lazily(lambda index: self._batch(index, self.images.pixels.take(index)), parts)

    def epoch(
        self, epoch: int, seed: int, augmentation: Augmentation, first: int = 0, group: Group = ALONE
    ) -> Iterator[Batch]:
        """The batches of one epoch from number `first` on; a last batch too small to fill is left out.

        Of each batch, the samples that are this process's. The next batch's pixels are fetched while this one is
        worked on.
        """
        count = len(self.images)
        full = count // self.size * self.size or count
        samples, keys = epoch_of(self.images.pixels.order(seed, epoch), augmentation.repeats)
        changes = augmentation.changes(seed, epoch, keys.to(self.device))
        samples, meet = samples.to(self.images.labels.device), company if augmentation.mixing else alone
        starts = range(first * self.size, full, self.size)
        taken = [dealt(meet(start, min(start + self.size, full), count), group) for start in starts]
        with ThreadPoolExecutor(max_workers=1) as pool:
            pending = [pool.submit(self.images.pixels.take, samples[part.places]) for part in taken[:1]]
            for number, part in enumerate(taken, 1):
                pixels = sent(pending.pop().result(), self.device)
                soon = taken[number : number + 1]
                pending += [pool.submit(self.images.pixels.take, samples[after.places]) for after in soon]
                yield self._changed(pixels, samples[part.places], augmentation, changes.part(part.places), part)

    def steps_per_epoch(self) -> int:
        return max(1, len(self.images) // self.size)

    def _batch(self, index: Tensor, pixels: Tensor) -> Batch:
        inputs = prepared(sent(pixels, self.device), self.preparation)
        return Batch(inputs, sent(self.images.labels[index], self.device), index)

    def _changed(
        self, pixels: Tensor, index: Tensor, augmentation: Augmentation, changes: Changes, part: Company
    ) -> Batch:
        """The batch as a model is to learn it."""
        batch = self._batch(index, augmentation.apply(pixels, changes, self.preparation.mean))
        inputs = augmentation.finish(batch.inputs, changes)
        if augmentation.mixing is None:
            return batch._replace(inputs=inputs)
        own, partners = slice(0, part.size), sent(part.partners, self.device)
        plan = tuple(values[own] for values in changes.mixing)
        mixed, kept = augmentation.mixing(inputs[own], inputs[partners], plan)
        labels = shares(batch.labels[own], batch.labels[partners], kept, len(self.images.classes))
        return Batch(mixed, labels, index[own])
