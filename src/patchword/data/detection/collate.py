"""Join samples to a batch of one size, with the objects padded."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.detection.samples import Sample
from patchword.data.detection.transforms.geometry import pad, rounded_up

MULTIPLE = 32  # the largest stride of the usual backbones


class TargetFields(NamedTuple):
    """The objects of a batch.

    boxes: (batch, objects, 4) float32 as x1, y1, x2, y2 in pixels. labels: (batch, objects) int64. valid: (batch,
    objects) bool, False for padding, whose boxes and labels are 0. sizes: (batch, 2) int64, height and width of each
    image without its padding. masks: (batch, objects, height, width) bool, or None.
    """

    boxes: Tensor
    labels: Tensor
    valid: Tensor
    sizes: Tensor
    masks: Tensor | None


class DetectionBatch(NamedTuple):
    """images: (batch, channels, height, width), padded with zeros at the right and at the bottom."""

    images: Tensor
    targets: TargetFields


def collate(
    samples: Sequence[Sample], multiple: int = MULTIPLE, size: tuple[int, int] | None = None, objects: int | None = None
) -> DetectionBatch:
    """Join samples. Crowds are left out, because they are no single objects.

    multiple: of the height and the width, at least those of the largest image. size: height and width instead.
    objects: number of places for objects; without it, that of the image with most objects, at least 1. The batch has
    masks if all samples have some.
    """
    if not samples:
        raise UserError("a batch has at least one sample", got="none")
    samples = [sample.select(~sample.crowd) for sample in samples]
    height, width = size or (
        rounded_up(max(sample.pixels.shape[side] for sample in samples), multiple) for side in (1, 2)
    )
    places = max(1, *(len(sample) for sample in samples)) if objects is None else objects
    padded = [pad(sample, height, width) for sample in samples]
    return DetectionBatch(torch.stack([sample.pixels for sample in padded]), _targets(padded, places))


def _targets(samples: Sequence[Sample], places: int) -> TargetFields:
    most = max(len(sample) for sample in samples)
    if most > places:
        raise UserError("an image has more objects than the batch has places", expected=f"at most {places}", got=most)
    masks = [sample.masks for sample in samples if sample.masks is not None]
    return TargetFields(
        boxes=torch.stack([_padded(sample.boxes, places) for sample in samples]),
        labels=torch.stack([_padded(sample.labels, places) for sample in samples]),
        valid=torch.stack([torch.arange(places) < len(sample) for sample in samples]),
        sizes=torch.tensor([sample.size for sample in samples]),
        masks=torch.stack([_padded(mask, places) for mask in masks]) if len(masks) == len(samples) else None,
    )


def _padded(values: Tensor, places: int) -> Tensor:
    """Add zeros, up to this number of objects."""
    return torch.cat((values, values.new_zeros(places - len(values), *values.shape[1:])))
