"""Join samples to a batch of one size, with the objects padded."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.core.geometry.objects import Targets
from patchword.data.augmentation.augmentation import normalize
from patchword.data.augmentation.color import ColorJitter, jitter
from patchword.data.augmentation.random_draws import Draws
from patchword.data.detection.samples import Sample
from patchword.data.detection.transforms.geometry import check_padded_size, rounded_up

MULTIPLE = 32  # the largest stride of the usual backbones


class DetectionBatch(NamedTuple):
    """images: (batch, channels, height, width), padded with zeros at the right and at the bottom."""

    images: Tensor
    targets: Targets

    def pinned(self) -> "DetectionBatch":
        """Return the batch in pinned memory, from which a copy to a GPU does not wait."""
        return DetectionBatch(self.images.pin_memory(), self.targets.pin_memory())


def jitter_padded(images: Tensor, sizes: Tensor, strength: float, draws: Draws) -> Tensor:
    """Change the colours of a batch on its device, with the numbers of each image; the padding is to be removed.

    images, sizes: as for `normalize_padded`. strength: 0 changes nothing. draws: of the samples of the batch.
    """
    if not strength:
        return images
    factors, orders = ColorJitter(strength).plan(draws)
    return jitter(images, factors, orders, sizes.prod(1))


def normalize_padded(images: Tensor, sizes: Tensor, normalization: Normalization) -> Tensor:
    """Normalize the pixels of a batch; padding becomes 0, as where images are normalized before they are padded.

    images: (batch, channels, height, width), uint8. sizes: (batch, 2), height and width without padding.
    """
    row, column = (torch.arange(side, device=images.device) for side in images.shape[2:])
    inside = (row < sizes[:, :1])[:, :, None] & (column < sizes[:, 1:])[:, None, :]
    return normalize(images, normalization) * inside[:, None]


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
    for sample in samples:
        check_padded_size(sample, height, width)
    pixels = samples[0].pixels
    images = pixels.new_zeros(len(samples), pixels.shape[0], height, width)
    for image, sample in zip(images, samples, strict=True):
        image[:, : sample.pixels.shape[1], : sample.pixels.shape[2]] = sample.pixels
    return DetectionBatch(images, _targets(samples, places, (height, width)))


def _targets(samples: Sequence[Sample], places: int, size: tuple[int, int]) -> Targets:
    most = max(len(sample) for sample in samples)
    if most > places:
        raise UserError("an image has more objects than the batch has places", expected=f"at most {places}", got=most)
    return Targets(
        boxes=torch.stack([_padded(sample.boxes, places) for sample in samples]),
        labels=torch.stack([_padded(sample.labels, places) for sample in samples]),
        valid=torch.stack([torch.arange(places) < len(sample) for sample in samples]),
        sizes=torch.tensor([sample.size for sample in samples]),
        masks=_masks([sample.masks for sample in samples], places, size),
    )


def _masks(masks: Sequence[Tensor | None], places: int, size: tuple[int, int]) -> Tensor | None:
    """Copy all masks into one tensor; None if a sample has none."""
    found = torch.zeros(len(masks), places, *size, dtype=torch.bool)
    for place, own in zip(found, masks, strict=True):
        if own is None:
            return None
        place[: len(own), : own.shape[1], : own.shape[2]] = own
    return found


def _padded(values: Tensor, places: int) -> Tensor:
    """Add zeros, up to this number of objects."""
    return torch.cat((values, values.new_zeros(places - len(values), *values.shape[1:])))
