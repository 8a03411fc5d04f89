"""Batches of images with label maps in the order of an epoch, read by threads while the model trains."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from patchword.core.card import Normalization
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.augmentation.random_draws import Draws
from patchword.data.detection.collate import MULTIPLE, jitter_padded, normalize_padded
from patchword.data.detection.reading_ahead import BatchPart, ImageBatch, epoch_parts, read_ahead
from patchword.data.detection.transforms.draws import SampleDraws
from patchword.data.detection.transforms.geometry import rounded_up
from patchword.data.segmentation.records import IGNORED
from patchword.data.segmentation.samples import LabelledSample
from patchword.data.segmentation.sources import SegmentationSource
from patchword.data.segmentation.transforms.label_transforms import LabelTransform


@dataclass(frozen=True, eq=False)
class LabelBatch(ImageBatch):
    """Images and label maps on the device.

    images: (batch, channels, height, width), normalized and padded. labels: (batch, height, width) uint8, IGNORED in
    the padding. samples: (batch,), their indices in the data set. group: the processes that share the batch.
    """

    labels: Tensor
    samples: Tensor
    group: WorkSharing = SINGLE

    def split(self, parts: int) -> list["LabelBatch"]:
        pieces = zip(self.images.chunk(parts), self.labels.chunk(parts), self.samples.chunk(parts), strict=True)
        return [replace(self, images=images, labels=labels, samples=samples) for images, labels, samples in pieces]


@dataclass(frozen=True, eq=False)
class JoinedSamples:
    """Samples of one size. pixels: (batch, channels, height, width) uint8. sizes: (batch, 2) without padding."""

    pixels: Tensor
    labels: Tensor
    sizes: Tensor

    def pinned(self) -> "JoinedSamples":
        return JoinedSamples(self.pixels.pin_memory(), self.labels.pin_memory(), self.sizes.pin_memory())


def join_samples(samples: Sequence[LabelledSample], side: int = 0, multiple: int = MULTIPLE) -> JoinedSamples:
    """Pad samples at the right and at the bottom. side: height and width are at least this; both are multiples."""
    height, width = (rounded_up(max(side, *(one.size[axis] for one in samples)), multiple) for axis in (0, 1))
    first = samples[0]
    pixels = first.pixels.new_zeros(len(samples), first.pixels.shape[0], height, width)
    labels = first.labels.new_full((len(samples), height, width), IGNORED)
    for place, one in enumerate(samples):
        rows, columns = one.size
        pixels[place, :, :rows, :columns] = one.pixels
        labels[place, :rows, :columns] = one.labels
    return JoinedSamples(pixels, labels, torch.tensor([one.size for one in samples]))


@dataclass(frozen=True, eq=False)
class LabelBatches:
    """The batches of one split. transform: resizes and augments each sample. side: of crops, so that all batches have
    one shape. passes: over the images in each epoch. color_jitter: of the batch, on the device; 0 is off.
    """

    source: SegmentationSource
    size: int
    normalization: Normalization
    device: torch.device
    transform: LabelTransform
    side: int = 0
    passes: int = 1
    color_jitter: float = 0.0

    def steps_per_epoch(self) -> int:
        return self.passes * max(1, len(self.source) // self.size)

    def epoch(self, epoch: int, seed: int, first: int = 0, group: WorkSharing = SINGLE) -> Iterator[LabelBatch]:
        """Yield this process's part of the batches of one epoch, from number `first`; an incomplete last batch is
        dropped."""
        passes = range(epoch * self.passes, (epoch + 1) * self.passes)
        return self._batches(epoch_parts(len(self.source), self.size, passes, seed, group, first), seed, group)

    def _on_device(self, joined: JoinedSamples, draws: Draws, group: WorkSharing) -> LabelBatch:
        images, labels, sizes = (
            one.to(self.device, non_blocking=True) for one in (joined.pixels, joined.labels, joined.sizes)
        )
        images = jitter_padded(images, sizes, self.color_jitter, draws)
        pixels = normalize_padded(images, sizes, self.normalization)
        if self.device.type == "cuda":
            pixels = pixels.contiguous(memory_format=torch.channels_last)  # the faster layout of convolutions
        return LabelBatch(pixels, labels, draws.index, group)

    def _batches(self, parts: Sequence[BatchPart], seed: int, group: WorkSharing) -> Iterator[LabelBatch]:
        """Yield batches. parts: the number of the pass and the samples of each batch."""

        def read(one: int, index: int) -> LabelledSample:
            return self.transform(self.source.sample(index), SampleDraws(seed, one, index))

        def join(samples: Sequence[LabelledSample]) -> JoinedSamples:
            joined = join_samples(samples, self.side)
            return joined.pinned() if self.device.type == "cuda" else joined

        for (one, part), joined in zip(parts, read_ahead(parts, read, join), strict=True):
            yield self._on_device(joined, Draws(seed, one, part), group)
