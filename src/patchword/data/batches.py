"""Batches: which samples, in which order, from which place on."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.card import Preparation
from patchword.data.augment import Augmentation, prepared
from patchword.data.images import Held, Images
from patchword.data.randomness import order

RESIDENT = 2 * 2**30  # a set up to this many bytes is put on the accelerator whole


class Batch(NamedTuple):
    """inputs (batch, channels, height, width) float32, labels (batch,), and the samples' numbers in the set"""

    inputs: Tensor
    labels: Tensor
    samples: Tensor

    @property
    def weight(self) -> int:
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        return self.inputs.device

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

    def whole(self) -> Iterator[Batch]:
        """Every sample once, in the set's own order, unchanged: for evaluation."""
        for index in torch.arange(len(self.images), device=self.images.labels.device).split(self.size):
            yield self._batch(index, self.images.pixels.take(index))

    def epoch(self, epoch: int, seed: int, augmentation: Augmentation, first: int = 0) -> Iterator[Batch]:
        """The batches of one epoch from number `first` on; a last batch too small to fill is left out.

        The next batch's pixels are fetched while this one is worked on.
        """
        full = len(self.images) // self.size * self.size or len(self.images)
        ordered = order(seed, epoch, len(self.images))[:full].to(self.images.labels.device)
        changes = augmentation.changes(seed, epoch, ordered.to(self.device))
        with ThreadPoolExecutor(max_workers=1) as pool:
            starts = range(first * self.size, full, self.size)
            parts = [ordered[start : start + self.size] for start in starts]
            pending = [pool.submit(self.images.pixels.take, part) for part in parts[:1]]
            for number, (start, index) in enumerate(zip(starts, parts, strict=True), 1):
                pixels = pending.pop().result().to(self.device, non_blocking=True)
                pending += [pool.submit(self.images.pixels.take, part) for part in parts[number : number + 1]]
                changed = augmentation.apply(pixels, changes.part(start, start + self.size))
                yield self._batch(index, changed)

    def steps_per_epoch(self) -> int:
        return max(1, len(self.images) // self.size)

    def _batch(self, index: Tensor, pixels: Tensor) -> Batch:
        inputs = prepared(pixels.to(self.device), self.preparation)
        return Batch(inputs, self.images.labels[index].to(self.device), index)
