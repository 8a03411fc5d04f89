"""Join samples to a batch of one size, with the objects padded."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.geometry.objects import Targets
from patchword.data.detection.samples import Sample
from patchword.data.detection.transforms.geometry import pad, rounded_up

MULTIPLE = 32  # the largest stride of the usual backbones


class DetectionBatch(NamedTuple):
    """images: (batch, channels, height, width), padded with zeros at the right and at the bottom."""

    images: Tensor
    targets: Targets


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


def _targets(samples: Sequence[Sample], places: int) -> Targets:
    most = max(len(sample) for sample in samples)
    if most > places:
        raise UserError("an image has more objects than the batch has places", expected=f"at most {places}", got=most)
    masks = [sample.masks for sample in samples if sample.masks is not None]
    return Targets(
        boxes=torch.stack([_padded(sample.boxes, places) for sample in samples]),
        labels=torch.stack([_padded(sample.labels, places) for sample in samples]),
        valid=torch.stack([torch.arange(places) < len(sample) for sample in samples]),
        sizes=torch.tensor([sample.size for sample in samples]),
        masks=torch.stack([_padded(mask, places) for mask in masks]) if len(masks) == len(samples) else None,
    )


def _padded(values: Tensor, places: int) -> Tensor:
    """Add zeros, up to this number of objects."""
    return torch.cat((values, values.new_zeros(places - len(values), *values.shape[1:])))
