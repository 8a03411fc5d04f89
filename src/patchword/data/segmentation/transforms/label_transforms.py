"""Resize, crop and flip of an image with its label map; labels take the nearest pixel."""

from dataclasses import dataclass
from typing import Protocol

import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from patchword.data.detection.transforms.draws import SampleDraws, TransformPurpose
from patchword.data.segmentation.records import IGNORED
from patchword.data.segmentation.samples import LabelledSample
from patchword.data.segmentation.transforms.windows import Window, resized_labels, resized_window

_TRIES = 10  # crops that are drawn until no class is too frequent, as mmseg


class LabelTransform(Protocol):
    """A change of a sample. It draws all its random numbers from `draws`."""

    def __call__(self, sample: LabelledSample, draws: SampleDraws) -> LabelledSample: ...


def resized_pixels(pixels: Tensor, height: int, width: int) -> Tensor:
    """Resize uint8 pixels (..., channels, height, width) bilinearly with antialiasing."""
    if tuple(pixels.shape[-2:]) == (height, width):
        return pixels
    batch = pixels if pixels.ndim == 4 else pixels[None]
    found = F.interpolate(batch, (height, width), mode="bilinear", antialias=True)
    return found if pixels.ndim == 4 else found[0]


def base_size(size: tuple[int, int], min_size: int, max_size: int) -> tuple[int, int]:
    """Return height and width for a shorter side of `min_size` and a longer one of at most `max_size` pixels.

    min_size: 0 keeps the size.
    """
    if not min_size:
        return size
    factor = min(min_size / min(size), max_size / max(size))
    return scaled_size(size, factor)


def scaled_size(size: tuple[int, int], factor: float) -> tuple[int, int]:
    """Return height and width times a factor, at least one pixel each."""
    return max(1, int(size[0] * factor + 0.5)), max(1, int(size[1] * factor + 0.5))


@dataclass(frozen=True)
class LabelChain:
    """Transforms that run one after another."""

    transforms: tuple[LabelTransform, ...] = ()

    def __call__(self, sample: LabelledSample, draws: SampleDraws) -> LabelledSample:
        for place, transform in enumerate(self.transforms):
            sample = transform(sample, draws.of_stage(place))
        return sample


@dataclass(frozen=True)
class RandomScaledCrop:
    """Resize by a random factor and cut out a square at a random place, or all of a side that is shorter.

    Only the pixels of the square are resized. side: of the square. smallest, largest: of the factor, which follows a
    resize to the base size. most: a place is drawn again, at most 10 times, while one class has at least this share of
    the labelled pixels; 1 takes the first place.
    """

    side: int = 512
    smallest: float = 0.5
    largest: float = 2.0
    min_size: int = 0
    max_size: int = 2048
    most: float = 0.75

    def __call__(self, sample: LabelledSample, draws: SampleDraws) -> LabelledSample:
        factor = self.smallest + draws.uniform(TransformPurpose.SIDE) * (self.largest - self.smallest)
        size = scaled_size(base_size(sample.size, self.min_size, self.max_size), factor)
        height, width = (min(self.side, length) for length in size)
        rows, columns = size[0] - height, size[1] - width
        for again in range(_TRIES):
            top = draws.integer(TransformPurpose.CROP_TOP, 0, rows, again)
            left = draws.integer(TransformPurpose.CROP_LEFT, 0, columns, again)
            window = Window(size, top, left, height, width)
            labels = resized_labels(sample.labels, window)
            if self.most >= 1 or (rows == columns == 0) or _largest_share(labels) < self.most:
                break
        return LabelledSample(resized_window(sample.pixels, window), labels)


def _largest_share(labels: Tensor) -> float:
    """Return the share of the most frequent class of the labelled pixels; 1 without labelled pixels."""
    counts = Image.fromarray(labels.numpy()).histogram()[:IGNORED]
    total = sum(counts)
    return max(counts) / total if total else 1.0


@dataclass(frozen=True)
class RandomLabelFlip:
    """Random horizontal flip."""

    probability: float = 0.5

    def __call__(self, sample: LabelledSample, draws: SampleDraws) -> LabelledSample:
        if draws.uniform(TransformPurpose.FLIP) >= self.probability:
            return sample
        return LabelledSample(sample.pixels.flip(-1), sample.labels.flip(-1))
