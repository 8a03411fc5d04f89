"""Transforms of samples, one after another or one of two; colour jitter, normalization; the usual augmentations."""

from dataclasses import dataclass, replace
from typing import Protocol

import torch

from patchword.core.card import Normalization
from patchword.data.augmentation.color import ColorJitter
from patchword.data.augmentation.stage import StageContext
from patchword.data.detection.samples import Sample
from patchword.data.detection.transforms.draws import SampleDraws, TransformPurpose
from patchword.data.detection.transforms.geometry import RandomCrop, RandomFlip, ResizeShorter


class Transform(Protocol):
    """A change of a sample. It draws all its random numbers from `draws`."""

    def __call__(self, sample: Sample, draws: SampleDraws) -> Sample: ...


@dataclass(frozen=True)
class Chain:
    """Transforms that run one after another."""

    transforms: tuple[Transform, ...] = ()

    def __call__(self, sample: Sample, draws: SampleDraws) -> Sample:
        for place, transform in enumerate(self.transforms):
            sample = transform(sample, draws.of_stage(place))
        return sample


@dataclass(frozen=True)
class Either:
    """The first transform with this probability, else the second."""

    first: Transform
    second: Transform
    probability: float = 0.5

    def __call__(self, sample: Sample, draws: SampleDraws) -> Sample:
        is_first = draws.uniform(TransformPurpose.CHOICE) < self.probability
        return self.first(sample, draws.of_stage(0)) if is_first else self.second(sample, draws.of_stage(1))


@dataclass(frozen=True)
class Jitter:
    """Change brightness, contrast and saturation by factors in 1 +- strength, in random order. Pixels are uint8."""

    strength: float

    def __call__(self, sample: Sample, draws: SampleDraws) -> Sample:
        stage, numbers = ColorJitter(self.strength), draws.of_image
        pixels = stage(sample.pixels[None], stage.plan(numbers), StageContext(numbers, ()))
        return replace(sample, pixels=pixels[0])


@dataclass(frozen=True)
class Normalize:
    """Normalize pixels: (pixel / 255 - mean) / std, float32."""

    normalization: Normalization

    def __call__(self, sample: Sample, draws: SampleDraws) -> Sample:
        values = self.normalization.over(sample.pixels.shape[0])
        mean, std = (torch.tensor(value).view(-1, 1, 1) for value in (values.mean, values.std))
        return replace(sample, pixels=(sample.pixels.float() / 255 - mean) / std)


def multi_scale(sides: tuple[int, ...] = tuple(range(480, 801, 32)), longest: int = 1333, flip: float = 0.5) -> Chain:
    """Return the augmentation of DETR and of Swin's detectors: flip, then resize, or resize, crop and resize."""
    resized = ResizeShorter(sides, longest)
    return Chain(
        (RandomFlip(flip), Either(resized, Chain((ResizeShorter((400, 500, 600), 10**6), RandomCrop(), resized))))
    )
