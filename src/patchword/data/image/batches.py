"""Batches of labelled images, augmented on the device."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.card import Normalization
from patchword.core.device import to_device
from patchword.core.work_sharing import SINGLE, LazySequence, WorkSharing
from patchword.data.augmentation.augmentation import Augmentation, SampleChanges, normalize
from patchword.data.augmentation.epoch_samples import (
    MixGroup,
    epoch_samples,
    for_process,
    with_partners,
    without_partners,
)
from patchword.data.augmentation.mixing import mixed_labels
from patchword.data.image.images import Images, InMemory
from patchword.data.sampling import Sampler

RESIDENT = 2 * 2**30  # a set of at most this many bytes is moved to the accelerator as a whole
_SHARE, _MOST = 2048, 4096  # batches made together use at most 1 / _SHARE of the accelerator's memory and _MOST images


class Batch(NamedTuple):
    """A batch of images: inputs (batch, channels, height, width) float32, labels, and the indices of the samples.

    labels: (batch,) class ids, or (batch, classes) class probabilities for mixed images.
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
    """The batches of a data set. The order of an epoch is deterministic; a run can start in the middle of one.

    sampler: draws the samples of an epoch; None: every sample once, in an order that suits the storage of the pixels.
    """

    images: Images
    size: int
    normalization: Normalization
    device: torch.device
    sampler: Sampler | None = None

    def on_device(self) -> "Batches":
        """Return the batches with all pixels on the accelerator, if they fit."""
        pixels = self.images.pixels
        if self.device.type == "cpu" or not isinstance(pixels, InMemory) or pixels.pixels.numel() > RESIDENT:
            return self
        labels = self.images.labels.to(self.device)
        moved = replace(self.images, pixels=InMemory(pixels.pixels.to(self.device)), labels=labels)
        return replace(self, images=moved)

    def __len__(self) -> int:
        return -(-len(self.images) // self.size)

    def whole(self) -> Sequence[Batch]:
        """Return batches of every sample once, in order, without augmentation; each is made when it is accessed."""
        parts = torch.arange(len(self.images), device=self.images.labels.device).split(self.size)
        return LazySequence(lambda index: self._batch(index, self.images.pixels.take(index)), parts)

    def epoch(
        self, epoch: int, seed: int, augmentation: Augmentation, first: int = 0, group: WorkSharing = SINGLE
    ) -> Iterator[Batch]:
        """Yield this process's part of the batches of one epoch, from number `first`; an incomplete last batch is
        dropped.

        The pixels of the next batches are read while the current ones are processed.
        """
        count = len(self.images)
        full = count // self.size * self.size or count
        samples, keys = epoch_samples((self.sampler or self.images.pixels.order)(seed, epoch), augmentation.repeats)
        changes = augmentation.changes(seed, epoch, keys.to(self.device))
        samples, meet = (
            samples.to(self.images.labels.device),
            with_partners if augmentation.mixing else without_partners,
        )
        stride = self.together() * self.size
        starts = range(first * self.size, full, stride)
        taken = [for_process(meet(start, min(start + stride, full), count), self.size, group) for start in starts]
        with ThreadPoolExecutor(max_workers=1) as pool:
            pending = [pool.submit(self.images.pixels.take, part.of(samples)) for part in taken[:1]]
            for number, part in enumerate(taken, 1):
                pixels = to_device(pending.pop().result(), self.device)
                soon = taken[number : number + 1]
                pending += [pool.submit(self.images.pixels.take, after.of(samples)) for after in soon]
                whole = self._changed(pixels, part.of(samples), augmentation, changes.part(part.places), part)
                yield from map(Batch, *(tensor.split(part.sizes) for tensor in whole))

    def together(self) -> int:
        """Return the number of batches that are augmented at once. On an accelerator, kernel launches dominate the time
        of
        small images, so several batches take no longer than one."""
        if self.device.type != "cuda":
            return 1
        room = torch.cuda.get_device_properties(self.device).total_memory // _SHARE
        return max(1, min(_MOST, room // prod(self.images.pixels.shape)) // self.size)

    def steps_per_epoch(self) -> int:
        return max(1, len(self.images) // self.size)

    def _batch(self, index: Tensor, pixels: Tensor) -> Batch:
        inputs = normalize(to_device(pixels, self.device), self.normalization)
        return Batch(inputs, to_device(self.images.labels[index], self.device), index)

    def _changed(
        self, pixels: Tensor, index: Tensor, augmentation: Augmentation, changes: SampleChanges, part: MixGroup
    ) -> Batch:
        """Return several batches as one, augmented and mixed."""
        batch = self._batch(index, augmentation.apply(pixels, changes, self.normalization.mean))
        inputs = augmentation.finish(batch.inputs, changes)
        if augmentation.mixing is None:
            return batch._replace(inputs=inputs)
        partners = to_device(part.partners, self.device)
        plan = tuple(values[part.own] for values in changes.mixing)
        mixed, kept = augmentation.mixing(inputs[part.own], inputs[partners], plan)
        labels = mixed_labels(batch.labels[part.own], batch.labels[partners], kept, len(self.images.classes))
        return Batch(mixed, labels, index[part.own])
