"""Augmentation: batched tensor code on the device; the changes of a sample depend only on (seed, epoch, sample)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import torch
from torch import Tensor

from patchword.core.card import Normalization
from patchword.core.device import to_device
from patchword.data.augmentation.boxes import Crop, Erasing
from patchword.data.augmentation.color import ColorJitter, ThreeAugment
from patchword.data.augmentation.flip_shift_square import BlackSquare, Flip, Shift
from patchword.data.augmentation.mixing import Mixing
from patchword.data.augmentation.randaugment import RandAugment, Version
from patchword.data.augmentation.random_draws import Draws
from patchword.data.augmentation.stage import Stage, StageContext, StagePlan

Erased = Literal["square", "const", "pixel"]


@dataclass(frozen=True)
class SampleChanges:
    """The random choices of an epoch or a batch, one entry per sample."""

    draws: Draws  # on the CPU
    plans: tuple[StagePlan, ...]  # of the stages on uint8 pixels
    later: tuple[StagePlan, ...]  # of the stages on normalised images
    mixing: StagePlan

    def part(self, rows: slice | Tensor) -> "SampleChanges":
        """Return the choices of some samples. rows: on the CPU."""
        plans, later = (tuple(_rows(plan, rows) for plan in plans) for plans in (self.plans, self.later))
        return SampleChanges(self.draws.part(rows), plans, later, _rows(self.mixing, rows))


def _rows(plan: StagePlan, rows: slice | Tensor) -> StagePlan:
    return tuple(values[rows if isinstance(rows, slice) else to_device(rows, values.device)] for values in plan)


@dataclass(frozen=True)
class Augmentation:
    """Augmentation: crop, flip, shift, RandAugment, 3-Augment, colour jitter, erasing, mixing, in this order."""

    flip: float = 0.0  # probability of a horizontal flip
    shift: int = 0  # maximum shift in pixels, in each direction; the border is black
    crop: float = 0.0  # minimum fraction of the area that a random crop keeps; 0 is off
    color_jitter: float = 0.0  # maximum change of brightness, contrast and saturation
    randaugment: float = 0.0  # RandAugment's magnitude, up to 10; 0 is off
    randaugment_std: float = 0.5  # standard deviation of RandAugment's magnitude
    operations: Version = "deit"
    three_augment: float = 0.0  # probability of 3-Augment: one of greyscale, solarize and blur
    random_erasing: float = 0.0  # probability of random erasing
    erasing_fill: Erased = "square"  # fill: a black square, or a random box of the mean colour or of noise
    mixup: float = 0.0  # a of the Beta(a, a) distribution of the mixing weight; 0 is off
    cutmix: float = 0.0
    mix_probability: float = 1.0  # probability that an image is mixed
    mix_switch_probability: float = 0.5  # probability of CutMix if both are on
    repeats: int = 1  # views of an image per epoch (repeated augmentation)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages on uint8 pixels."""
        return tuple(self._stages())

    def _stages(self) -> Iterator[Stage]:
        if self.crop:
            yield Crop(self.crop)
        if self.flip:
            yield Flip(self.flip)
        if self.shift:
            yield Shift(self.shift)
        if self.randaugment:
            yield RandAugment(self.randaugment, self.randaugment_std, self.operations)
        if self.three_augment:
            yield ThreeAugment(self.three_augment)
        if self.color_jitter:
            yield ColorJitter(self.color_jitter)
        if self.random_erasing and self.erasing_fill == "square":
            yield BlackSquare(self.random_erasing)

    @cached_property
    def later(self) -> tuple[Stage, ...]:
        """The stages on normalised images."""
        return (
            (Erasing(self.random_erasing, self.erasing_fill == "pixel"),)
            if self.random_erasing and self.erasing_fill != "square"
            else ()
        )

    @cached_property
    def mixing(self) -> Mixing | None:
        on = self.mix_probability and (self.mixup or self.cutmix)
        return Mixing(self.mixup, self.cutmix, self.mix_probability, self.mix_switch_probability) if on else None

    def changes(self, seed: int, epoch: int, index: Tensor) -> SampleChanges:
        """Draw the choices of a whole epoch at once; many small draws would cost more than the augmentation."""
        draws = Draws(seed, epoch, index)
        plans, later = (tuple(stage.plan(draws) for stage in stages) for stages in (self.stages, self.later))
        return SampleChanges(draws.host, plans, later, self.mixing.plan(draws) if self.mixing else ())

    def apply(self, pixels: Tensor, changes: SampleChanges, colour: Sequence[float] = (0.5,)) -> Tensor:
        """Augment a batch of images, (batch, channels, height, width) uint8.

        colour: fill colour, the mean of the data set, from 0 to 1.
        """
        given = StageContext(changes.draws, colour)
        for stage, plan in zip(self.stages, changes.plans, strict=True):
            pixels = stage(pixels, plan, given)
        return pixels

    def finish(self, inputs: Tensor, changes: SampleChanges) -> Tensor:
        """Apply the stages on normalised images."""
        given = StageContext(changes.draws, (0.0,))
        for stage, plan in zip(self.later, changes.later, strict=True):
            inputs = stage(inputs, plan, given)
        return inputs

    def __call__(self, pixels: Tensor, seed: int, epoch: int, index: Tensor) -> Tensor:
        return self.apply(pixels, self.changes(seed, epoch, index.to(pixels.device)))


def normalize(pixels: Tensor, normalization: Normalization) -> Tensor:
    """Normalize images: uint8 -> float32. A single mean and standard deviation apply to all channels."""
    scale, offset = _constants(normalization, pixels.device)
    return torch.addcmul(offset, pixels.float(), scale)


@lru_cache(maxsize=8)
def _constants(normalization: Normalization, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return scale and offset: (pixels / 255 - mean) / std = pixels * scale + offset.

    They are cached, since a copy to an accelerator synchronizes.
    """
    both = (normalization.mean, normalization.std)
    mean, std = (torch.tensor(part, dtype=torch.float64).view(1, -1, 1, 1) for part in both)
    return (1 / (255 * std)).float().to(device), (-mean / std).float().to(device)
