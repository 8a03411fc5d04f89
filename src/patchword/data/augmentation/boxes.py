"""Random boxes, for random resized crops and random erasing."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchword.core.device import to_device
from patchword.data.augmentation.geometry import bicubic, resampled
from patchword.data.augmentation.random_draws import Draws, Purpose
from patchword.data.augmentation.stage import StageContext, StagePlan, apply_to

_TRIES = 10  # as in torchvision and timm


@dataclass(frozen=True)
class Boxes:
    """Random boxes: uniform area, log-uniform aspect ratio (width / height), drawn until the box fits."""

    area: tuple[float, float]  # fractions of the image's area
    shape: tuple[float, float]
    purposes: tuple[Purpose, Purpose, Purpose, Purpose]  # area, shape, top, left

    def plan(self, draws: Draws) -> StagePlan:
        """Draw area fractions and aspect ratios, each (count, tries), and box positions in [0, 1)."""
        area, shape, top, left = self.purposes
        low, high = self.area
        start, end = (math.log(bound) for bound in self.shape)
        areas = torch.stack([low + (high - low) * draws.uniform(area, again) for again in range(_TRIES)], 1)
        shapes = torch.stack([start + (end - start) * draws.uniform(shape, again) for again in range(_TRIES)], 1)
        return areas, shapes.exp(), draws.uniform(top), draws.uniform(left)

    def placed(self, plan: StagePlan, height: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return top, left, height and width of each sample's box in pixels; an empty box if no try fits.

        Uses numpy: torch would start threads for these few numbers, which takes longer than the computation.
        """
        areas, shapes, *corner = (values.numpy() for values in plan)
        rows = np.rint(np.sqrt(areas * (height * width) / shapes))
        columns = np.rint(np.sqrt(areas * (height * width) * shapes))
        fits = (rows >= 1) & (rows <= height) & (columns >= 1) & (columns <= width)
        chosen = np.arange(len(fits)), fits.argmax(1)  # argmax returns the first
        lengths = [(sides * fits)[chosen] for sides in (rows, columns)]
        room = [side - length + 1 for side, length in zip((height, width), lengths, strict=True)]
        starts = [fraction * most for fraction, most in zip(corner, room, strict=True)]
        top, left, down, across = (torch.from_numpy(part.astype(np.int64)) for part in (*starts, *lengths))
        return top, left, down, across


@dataclass(frozen=True)
class Crop:
    """Random resized crop (Szegedy et al., 2015) of at least the fraction `least` of the area; the whole image if no
    box
    fits, as in a very elongated image."""

    least: float

    @property
    def boxes(self) -> Boxes:
        purposes = (Purpose.CROP_AREA, Purpose.CROP_RATIO, Purpose.CROP_TOP, Purpose.CROP_LEFT)
        return Boxes((self.least, 1.0), (3 / 4, 4 / 3), purposes)

    def plan(self, draws: Draws) -> StagePlan:
        return self.boxes.plan(draws.host)

    def __call__(self, pixels: Tensor, plan: StagePlan, given: StageContext) -> Tensor:
        height, width = pixels.shape[-2:]
        box = torch.stack(self.boxes.placed(plan, height, width))
        whole = torch.tensor([0, 0, height, width])[:, None]
        top, left, rows, columns = to_device(torch.where(box[2] > 0, box, whole), pixels.device)
        return resampled(pixels, bicubic(top, rows, height), bicubic(left, columns, width))


@dataclass(frozen=True)
class Erasing:
    """Random erasing (Zhong et al., 2017) of normalised images: a box of 2% to a third of the area is set to 0, the
    mean
    colour, or with `noise` to normal noise per pixel. If no box fits, nothing is erased."""

    probability: float
    noise: bool

    @property
    def boxes(self) -> Boxes:
        purposes = (Purpose.ERASE_AREA, Purpose.ERASE_RATIO, Purpose.ERASE_TOP, Purpose.ERASE_LEFT)
        return Boxes((0.02, 1 / 3), (0.3, 1 / 0.3), purposes)

    def plan(self, draws: Draws) -> StagePlan:
        host = draws.host
        return host.uniform(Purpose.ERASE) < self.probability, *self.boxes.plan(host)

    def __call__(self, pixels: Tensor, plan: StagePlan, given: StageContext) -> Tensor:
        chosen, *drawn = plan
        top, left, rows, columns = self.boxes.placed(tuple(drawn), *pixels.shape[-2:])

        def erased(images: Tensor, which: Tensor) -> Tensor:
            box = to_device(torch.stack([top, rows, left, columns])[:, which], images.device)
            blank = box_mask(box[:2], box[2:], images)
            return torch.where(blank, self._paint(images, given.draws.part(which)), images)

        return apply_to(pixels, chosen, erased)

    def _paint(self, images: Tensor, draws: Draws) -> Tensor:
        if not self.noise:
            return images.new_zeros(())
        there = Draws(draws.seed, draws.epoch, to_device(draws.index, images.device))
        return there.noise(images[0].numel()).view_as(images).to(images.dtype)


def box_mask(rows: Tensor, columns: Tensor, images: Tensor) -> Tensor:
    """Return (batch, 1, height, width), True inside each image's box. rows, columns: (2, batch), start and length."""
    height, width = (torch.arange(side, device=images.device) for side in images.shape[-2:])
    in_rows = (height >= rows[0, :, None]) & (height < rows.sum(0)[:, None])
    in_columns = (width >= columns[0, :, None]) & (width < columns.sum(0)[:, None])
    return (in_rows[:, :, None] & in_columns[:, None, :])[:, None]
