"""Flip, resize, crop and pad: functions of a sample, and transforms that draw their arguments."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.detection.samples import Sample
from patchword.data.detection.transforms.draws import SampleDraws, TransformPurpose


def flip(sample: Sample) -> Sample:
    """Mirror the sample left to right."""
    sample = sample.without_padding()
    x1, y1, x2, y2 = sample.boxes.unbind(1)
    width = sample.size[1]
    return replace(
        sample,
        pixels=sample.pixels.flip(-1),
        boxes=torch.stack((width - x2, y1, width - x1, y2), 1),
        masks=None if sample.masks is None else sample.masks.flip(-1),
    )


def resize(sample: Sample, height: int, width: int) -> Sample:
    """Resize pixels bilinearly with antialiasing, and masks to the nearest pixel."""
    sample = sample.without_padding()
    if sample.size == (height, width):
        return sample
    pixels = F.interpolate(sample.pixels[None], (height, width), mode="bilinear", antialias=True)[0]
    scale = torch.tensor([width / sample.size[1], height / sample.size[0]]).repeat(2)
    masks = None if sample.masks is None else _resized_masks(sample.masks, height, width)
    return replace(sample, pixels=pixels, boxes=sample.boxes * scale, masks=masks, size=(height, width))


def _resized_masks(masks: Tensor, height: int, width: int) -> Tensor:
    """Take the pixel at the centre of each new pixel."""
    row, column = (
        ((torch.arange(new) + 0.5) * (old / new)).long().clamp(max=old - 1)
        for new, old in ((height, masks.shape[1]), (width, masks.shape[2]))
    )
    return masks.index_select(1, row).index_select(2, column)  # much faster than one index for both


def crop(sample: Sample, top: int, left: int, height: int, width: int) -> Sample:
    """Cut a rectangle out. Objects whose box centre is outside are dropped; boxes and masks are cut.

    The box of an object that is cut is the box of the rest of its mask, if there are masks. An object without any pixel
    left is dropped.
    """
    sample = sample.without_padding()
    limits = torch.tensor([width, height, width, height])
    moved = sample.boxes - torch.tensor([left, top, left, top])
    boxes = torch.minimum(moved.clamp(min=0), limits)
    center = (moved[:, :2] + moved[:, 2:]) / 2
    kept = ((center >= 0) & (center < limits[:2])).all(1)
    masks = None
    if sample.masks is not None:
        masks = sample.masks[:, top : top + height, left : left + width]
        is_cut, has_rest = (boxes != moved).any(1), masks.flatten(1).any(1)
        kept &= has_rest | ~is_cut
        redone = is_cut & has_rest
        boxes[redone] = mask_boxes(masks[redone])
    pixels = sample.pixels[:, top : top + height, left : left + width]
    size = pixels.shape[1], pixels.shape[2]
    return replace(sample, pixels=pixels, boxes=boxes, masks=masks, size=size).select(kept)


def mask_boxes(masks: Tensor) -> Tensor:
    """Return the boxes (objects, 4) float32 around the set pixels of masks that are not empty."""
    columns, rows = masks.any(1), masks.any(2)
    low = [line.int().argmax(1) for line in (columns, rows)]
    high = [line.shape[1] - line.flip(1).int().argmax(1) for line in (columns, rows)]
    return torch.stack((*low, *high), 1).float()


def pad(sample: Sample, height: int, width: int) -> Sample:
    """Add zeros at the right and at the bottom. The size of the sample stays that of the image."""
    check_padded_size(sample, height, width)
    more = (0, width - sample.pixels.shape[2], 0, height - sample.pixels.shape[1])
    masks = None if sample.masks is None else F.pad(sample.masks, more)
    return replace(sample, pixels=F.pad(sample.pixels, more), masks=masks)


def check_padded_size(sample: Sample, height: int, width: int) -> None:
    """Raise an error if an image is larger than its padded size."""
    if sample.pixels.shape[1] > height or sample.pixels.shape[2] > width:
        raise UserError(
            "the image is larger than the padded size",
            expected=f"at most {width} x {height}",
            got=f"{sample.pixels.shape[2]} x {sample.pixels.shape[1]}",
        )


def rounded_up(side: int, multiple: int) -> int:
    """Return the smallest multiple that is not smaller than a side."""
    return -(-side // multiple) * multiple


@dataclass(frozen=True)
class RandomFlip:
    """Random horizontal flip."""

    probability: float = 0.5

    def __call__(self, sample: Sample, draws: SampleDraws) -> Sample:
        return flip(sample) if draws.uniform(TransformPurpose.FLIP) < self.probability else sample


@dataclass(frozen=True)
class ResizeShorter:
    """Resize the shorter side to one of several lengths; the longer side has at most `longest` pixels."""

    sides: tuple[int, ...] = (800,)
    longest: int = 1333

    def __call__(self, sample: Sample, draws: SampleDraws) -> Sample:
        side = self.sides[draws.integer(TransformPurpose.SIDE, 0, len(self.sides) - 1)]
        factor = min(side / min(sample.size), self.longest / max(sample.size))
        height, width = (max(1, int(old * factor + 0.5)) for old in sample.size)
        return resize(sample, height, width)


@dataclass(frozen=True)
class RandomCrop:
    """Cut out a rectangle at a random place, with sides of `smallest` to `largest` pixels where the image has them."""

    smallest: int = 384
    largest: int = 600

    def __call__(self, sample: Sample, draws: SampleDraws) -> Sample:
        height, width = (
            draws.integer(purpose, min(self.smallest, side), min(self.largest, side))
            for purpose, side in zip(
                (TransformPurpose.CROP_HEIGHT, TransformPurpose.CROP_WIDTH), sample.size, strict=True
            )
        )
        top = draws.integer(TransformPurpose.CROP_TOP, 0, sample.size[0] - height)
        left = draws.integer(TransformPurpose.CROP_LEFT, 0, sample.size[1] - width)
        return crop(sample, top, left, height, width)


@dataclass(frozen=True)
class Pad:
    """Pad height and width to a multiple."""

    multiple: int = 32

    def __call__(self, sample: Sample, draws: SampleDraws) -> Sample:
        height, width = (rounded_up(side, self.multiple) for side in sample.pixels.shape[1:])
        return pad(sample, height, width)
