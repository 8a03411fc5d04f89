"""Horizontal flip, shift and black square."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.data.augmentation.boxes import box_mask
from patchword.data.augmentation.random_draws import Draws, Purpose
from patchword.data.augmentation.stage import StageContext, StagePlan


@dataclass(frozen=True)
class Flip:
    """Random horizontal flip."""

    probability: float

    def plan(self, draws: Draws) -> StagePlan:
        return (draws.uniform(Purpose.FLIP) < self.probability,)

    def __call__(self, pixels: Tensor, plan: StagePlan, given: StageContext) -> Tensor:
        return torch.where(plan[0].view(-1, 1, 1, 1), pixels.flip(-1), pixels)


@dataclass(frozen=True)
class Shift:
    """Random shift by at most `most` pixels in each direction; the border is black."""

    most: int

    def plan(self, draws: Draws) -> StagePlan:
        return tuple(draws.integers(axis, -self.most, self.most) for axis in (Purpose.ROWS, Purpose.COLUMNS))

    def __call__(self, pixels: Tensor, plan: StagePlan, given: StageContext) -> Tensor:
        rows, columns = plan
        return shifted(pixels, rows, columns, self.most)


@dataclass(frozen=True)
class BlackSquare:
    """Random black square with sides of a quarter of the image's."""

    probability: float

    def plan(self, draws: Draws) -> StagePlan:
        blanked = draws.uniform(Purpose.SQUARE) < self.probability
        return blanked, draws.uniform(Purpose.SQUARE_TOP), draws.uniform(Purpose.SQUARE_LEFT)

    def __call__(self, pixels: Tensor, plan: StagePlan, given: StageContext) -> Tensor:
        blanked, *starts = plan
        boxes = []
        for side, start in zip(pixels.shape[-2:], starts, strict=True):
            first = (start * (side - side // 4 + 1)).long()
            boxes.append(torch.stack([first, torch.full_like(first, side // 4)]))
        return pixels.masked_fill(box_mask(boxes[0], boxes[1], pixels) & blanked.view(-1, 1, 1, 1), 0)


def shifted(pixels: Tensor, rows: Tensor, columns: Tensor, most: int) -> Tensor:
    """Shift each image down by its `rows` and right by its `columns`."""
    batch, _, height, width = pixels.shape
    padded = F.pad(pixels, (most, most, most, most))
    row = torch.arange(height, device=pixels.device) + most - rows[:, None]
    column = torch.arange(width, device=pixels.device) + most - columns[:, None]
    image = torch.arange(batch, device=pixels.device).view(-1, 1, 1)
    moved = padded[image, :, row[:, :, None], column[:, None, :]]  # (batch, height, width, channels)
    return moved.permute(0, 3, 1, 2)
