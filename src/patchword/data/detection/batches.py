"""Batches of detection data in the order of an epoch, read by threads while the model trains."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from patchword.core.card import Normalization
from patchword.core.device import to_device
from patchword.core.geometry.objects import Targets
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.augmentation.random_draws import Draws
from patchword.data.detection.collate import MULTIPLE, DetectionBatch, collate, jitter_padded, normalize_padded
from patchword.data.detection.reading_ahead import BatchPart, ImageBatch, epoch_parts, read_ahead
from patchword.data.detection.samples import Sample
from patchword.data.detection.sources import DetectionSource
from patchword.data.detection.transforms.chain import Transform
from patchword.data.detection.transforms.draws import SampleDraws
from patchword.data.randomness import uniform

_KEYS = 600  # first purpose of the random keys of samplers
_BOXES = 1 << 24  # more than the boxes of an image


@dataclass(frozen=True, eq=False)
class ObjectBatch(ImageBatch):
    """Images and their objects on the device.

    images: (batch, channels, height, width), normalized and padded. samples: (batch,), their indices in the data set.
    seed: of the run. pass_: number of the pass over the data. group: the processes that share the batch.
    """

    targets: Targets
    samples: Tensor
    seed: int
    pass_: int
    group: WorkSharing = SINGLE

    def split(self, parts: int) -> list["ObjectBatch"]:
        pieces = zip(self.images.chunk(parts), self.samples.chunk(parts), strict=True)
        found, start = [], 0
        for images, samples in pieces:
            some = slice(start, start + len(images))
            found.append(replace(self, images=images, samples=samples, targets=self.targets[some]))
            start += len(images)
        return found

    def keys(self) -> Callable[[tuple[int, int], torch.device], Tensor]:
        """Return a function of shape and device: random keys that depend on seed, pass, image, box and call only."""
        samples, calls = to_device(self.samples, self.device), iter(range(_KEYS, _KEYS + 100))

        def draw(shape: tuple[int, int], device: torch.device) -> Tensor:
            boxes = torch.arange(shape[1], device=device)
            return uniform(self.seed, self.pass_, samples[:, None] * _BOXES + boxes, next(calls))

        return draw


@dataclass(frozen=True, eq=False)
class DetectionBatches:
    """The batches of one split. transform: resizes and augments each sample. masks: whether the batches have masks.
    passes: over the images in each epoch. multiple: of the padded height and width. color_jitter: of batches, on the
    device; 0 is off.
    """

    source: DetectionSource
    size: int
    normalization: Normalization
    device: torch.device
    transform: Transform
    masks: bool = True
    passes: int = 1
    multiple: int = MULTIPLE
    color_jitter: float = 0.0

    def steps_per_epoch(self) -> int:
        return self.passes * max(1, len(self.source) // self.size)

    def epoch(self, epoch: int, seed: int, first: int = 0, group: WorkSharing = SINGLE) -> Iterator[ObjectBatch]:
        """Yield this process's part of the batches of one epoch, from number `first`; an incomplete last batch is
        dropped."""
        passes = range(epoch * self.passes, (epoch + 1) * self.passes)
        return self._batches(epoch_parts(len(self.source), self.size, passes, seed, group, first), seed, group)

    def whole(self) -> Iterator[ObjectBatch]:
        """Yield batches of every image once, in order."""
        return self._batches([(0, part) for part in torch.arange(len(self.source)).split(self.size)], 0, SINGLE)

    def batch(self, samples: Sequence[Sample], index: Tensor) -> ObjectBatch:
        """Return samples as a batch on the device."""
        return self._on_device(self._joined(samples), Draws(0, 0, index))

    def _joined(self, samples: Sequence[Sample]) -> DetectionBatch:
        """Join samples in memory from which a GPU copies."""
        if not self.masks:
            samples = [replace(sample, masks=None) for sample in samples]
        joined = collate(samples, self.multiple)
        return joined.pinned() if self.device.type == "cuda" else joined

    def _on_device(self, joined: DetectionBatch, draws: Draws) -> ObjectBatch:
        targets = joined.targets.to(self.device)
        images = joined.images.to(self.device, non_blocking=True)
        images = jitter_padded(images, targets.sizes, self.color_jitter, draws)
        pixels = normalize_padded(images, targets.sizes, self.normalization)
        if self.device.type == "cuda":
            pixels = pixels.contiguous(memory_format=torch.channels_last)  # the faster layout of convolutions
        return ObjectBatch(pixels, targets, draws.index, draws.seed, draws.epoch)

    def _batches(self, parts: Sequence[BatchPart], seed: int, group: WorkSharing) -> Iterator[ObjectBatch]:
        """Yield batches. parts: the number of the pass and the samples of each batch."""

        def read(one: int, index: int) -> Sample:
            return self.transform(self.source.sample(index), SampleDraws(seed, one, index))

        for (one, part), joined in zip(parts, read_ahead(parts, read, self._joined), strict=True):
            yield replace(self._on_device(joined, Draws(seed, one, part)), group=group)
