"""Augmentation: batched tensor code on the device; every sample's changes follow from (seed, epoch, sample)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import torch
from torch import Tensor

from patchword.core.card import Normalization
from patchword.core.to_device import to_device
from patchword.data.augmentation.boxes import Crop, Erasing
from patchword.data.augmentation.color import Jitter, ThreeAugment
from patchword.data.augmentation.flip_shift_square import Flip, Shift, Square
from patchword.data.augmentation.mixing import Mixing
from patchword.data.augmentation.randaugment import RandAugment, Version
from patchword.data.augmentation.random_draws import Draws
from patchword.data.augmentation.stage import Given, Stage, StagePlan

Erased = Literal["square", "const", "pixel"]


@dataclass(frozen=True)
class SampleChanges:
    """What happens to each sample of an epoch or a batch; one entry a sample."""

    draws: Draws  # in the main memory
    plans: tuple[StagePlan, ...]  # of the stages on pixels
    later: tuple[StagePlan, ...]  # of the stages on normalised pictures
    mixing: StagePlan

    def part(self, rows: slice | Tensor) -> "SampleChanges":
        """rows: in the main memory"""
        plans, later = (tuple(_rows(plan, rows) for plan in plans) for plans in (self.plans, self.later))
        return SampleChanges(self.draws.part(rows), plans, later, _rows(self.mixing, rows))


def _rows(plan: StagePlan, rows: slice | Tensor) -> StagePlan:
    return tuple(values[rows if isinstance(rows, slice) else to_device(rows, values.device)] for values in plan)


@dataclass(frozen=True)
class Augmentation:
    """Changes that keep the class, in the order crop, mirror, shift, operations, colour, blank; and mixed pictures."""

    flip: float = 0.0  # the chance of a mirror image
    shift: int = 0  # at most so many pixels, each way; the border is filled with black
    crop: float = 0.0  # the least share of the area that a random crop keeps; 0 is off
    jitter: float = 0.0  # the most that brightness, contrast and saturation change
    randaugment: float = 0.0  # RandAugment's strength, up to 10; 0 is off
    spread: float = 0.5  # the standard deviation of that strength
    operations: Version = "deit"
    three: float = 0.0  # the chance of one of greyscale, solarize and blur
    erase: float = 0.0  # the chance of a blank part
    erasing: Erased = "square"  # a black square, or a box of any shape, of the mean colour or of noise
    mixup: float = 0.0  # the a of the share's Beta(a, a); 0 is off
    cutmix: float = 0.0
    mixed: float = 1.0  # the chance that a picture is mixed at all
    switch: float = 0.5  # the chance of CutMix where both are on
    repeats: int = 1  # views of a picture in an epoch

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """What is done to pixels."""
        return tuple(self._stages())

    def _stages(self) -> Iterator[Stage]:
        if self.crop:
            yield Crop(self.crop)
        if self.flip:
            yield Flip(self.flip)
        if self.shift:
            yield Shift(self.shift)
        if self.randaugment:
            yield RandAugment(self.randaugment, self.spread, self.operations)
        if self.three:
            yield ThreeAugment(self.three)
        if self.jitter:
            yield Jitter(self.jitter)
        if self.erase and self.erasing == "square":
            yield Square(self.erase)

    @cached_property
    def later(self) -> tuple[Stage, ...]:
        """What is done to normalised pictures."""
        return (Erasing(self.erase, self.erasing == "pixel"),) if self.erase and self.erasing != "square" else ()

    @cached_property
    def mixing(self) -> Mixing | None:
        on = self.mixed and (self.mixup or self.cutmix)
        return Mixing(self.mixup, self.cutmix, self.mixed, self.switch) if on else None

    def changes(self, seed: int, epoch: int, index: Tensor) -> SampleChanges:
        """Drawn for a whole epoch at once, since many small draws would cost more than the changes themselves."""
        draws = Draws(seed, epoch, index)
        plans, later = (tuple(stage.plan(draws) for stage in stages) for stages in (self.stages, self.later))
        return SampleChanges(draws.host, plans, later, self.mixing.plan(draws) if self.mixing else ())

    def apply(self, pixels: Tensor, changes: SampleChanges, colour: Sequence[float] = (0.5,)) -> Tensor:
        """(batch, channels, height, width) uint8 -> the same; colour: the set's mean, 0 to 1, for what comes in"""
        given = Given(changes.draws, colour)
        for stage, plan in zip(self.stages, changes.plans, strict=True):
            pixels = stage(pixels, plan, given)
        return pixels

    def finish(self, inputs: Tensor, changes: SampleChanges) -> Tensor:
        """normalised pictures -> the same, with parts erased"""
        given = Given(changes.draws, (0.0,))
        for stage, plan in zip(self.later, changes.later, strict=True):
            inputs = stage(inputs, plan, given)
        return inputs

    def __call__(self, pixels: Tensor, seed: int, epoch: int, index: Tensor) -> Tensor:
        return self.apply(pixels, self.changes(seed, epoch, index.to(pixels.device)))


def prepared(pixels: Tensor, normalization: Normalization) -> Tensor:
    """uint8 -> float32, normalised; one mean and std serve all channels if only one is given"""
    scale, offset = _constants(normalization, pixels.device)
    return torch.addcmul(offset, pixels.float(), scale)


@lru_cache(maxsize=8)
def _constants(normalization: Normalization, device: torch.device) -> tuple[Tensor, Tensor]:
    """(pixels / 255 - mean) / std as pixels * scale + offset; kept, since a copy to an accelerator makes it wait"""
    both = (normalization.mean, normalization.std)
    mean, std = (torch.tensor(part, dtype=torch.float64).view(1, -1, 1, 1) for part in both)
    return (1 / (255 * std)).float().to(device), (-mean / std).float().to(device)
