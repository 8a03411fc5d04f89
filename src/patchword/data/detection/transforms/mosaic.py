"""Mosaic: four samples in one image (Bochkovskiy et al., 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from patchword.core.errors import UserError
from patchword.data.detection.samples import Sample
from patchword.data.detection.transforms.draws import SampleDraws, TransformPurpose
from patchword.data.detection.transforms.geometry import crop, resize

FILL = 114  # grey value where no image is


@dataclass(frozen=True)
class Mosaic:
    """Four images around a random point of a canvas of 2 * side pixels.

    Each image is resized so that its longer side has `side` pixels, and is cut where it leaves the canvas. The objects
    are cut as `crop` does. The point is in the middle half of the canvas.
    """

    side: int = 640

    def partners(self, draws: SampleDraws, count: int) -> tuple[int, int, int]:
        """Return the indices of three more samples out of `count`."""
        first, second, third = (draws.integer(TransformPurpose.PARTNER, 0, count - 1, again) for again in range(3))
        return first, second, third

    def __call__(self, samples: Sequence[Sample], draws: SampleDraws) -> Sample:
        if len(samples) != 4:
            raise UserError("a mosaic has four samples", got=len(samples))
        low, high = self.side // 2, self.side + self.side // 2
        x, y = draws.integer(TransformPurpose.CENTER_X, low, high), draws.integer(TransformPurpose.CENTER_Y, low, high)
        full, has_masks = 2 * self.side, all(sample.masks is not None for sample in samples)
        pixels = torch.full((samples[0].pixels.shape[0], full, full), FILL, dtype=torch.uint8)
        boxes, masks = [], []
        labels, crowd = [], []
        for place, sample in enumerate(samples):
            part, top, left = self._part(sample, place, x, y)
            height, width = part.size
            pixels[:, top : top + height, left : left + width] = part.pixels
            boxes.append(part.boxes + torch.tensor([left, top, left, top]))
            labels.append(part.labels)
            crowd.append(part.crowd)
            if has_masks and part.masks is not None:
                whole = torch.zeros(len(part), full, full, dtype=torch.bool)
                whole[:, top : top + height, left : left + width] = part.masks
                masks.append(whole)
        joined = torch.cat(masks) if has_masks else None
        return Sample(pixels, torch.cat(boxes), torch.cat(labels), torch.cat(crowd), joined, (full, full))

    def _part(self, sample: Sample, place: int, x: int, y: int) -> tuple[Sample, int, int]:
        """Return the part of a sample on the canvas, and its top and left. place: top left, top right, bottom ..."""
        factor = self.side / max(sample.size)
        height, width = (max(1, round(old * factor)) for old in sample.size)
        part, full = resize(sample, height, width), 2 * self.side
        is_right, is_low = place % 2 == 1, place >= 2
        shown_height = min(height, full - y if is_low else y)
        shown_width = min(width, full - x if is_right else x)
        # The corner of the image that touches the point stays.
        top, left = 0 if is_low else height - shown_height, 0 if is_right else width - shown_width
        part = crop(part, top, left, shown_height, shown_width)
        return part, y if is_low else y - shown_height, x if is_right else x - shown_width
