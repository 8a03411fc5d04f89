"""One image with its objects as tensors: what transforms change and batches are made of."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.detection.formats.labelme import embedded_image
from patchword.data.detection.orientation import (
    UPRIGHT,
    counts_stored_pixels,
    read_orientation,
    stored_size,
    upright_boxes,
    upright_mask,
)
from patchword.data.detection.records import AnnotatedImage
from patchword.data.image.image_file import decode_image, read_image


@dataclass(frozen=True, eq=False)
class Sample:
    """An image and its objects.

    pixels: (channels, height, width), uint8, or float32 after normalization. boxes: (objects, 4) float32 as x1, y1, x2,
    y2 in pixels. labels: (objects,) int64. crowd: (objects,) bool. masks: (objects, height, width) bool, or None.
    size: height and width of the image without padding, which is at the right and at the bottom.
    """

    pixels: Tensor
    boxes: Tensor
    labels: Tensor
    crowd: Tensor
    masks: Tensor | None
    size: tuple[int, int]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, kept: Tensor) -> "Sample":
        """Return the sample with some of its objects. kept: (objects,) bool."""
        if bool(kept.all()):
            return self
        masks = None if self.masks is None else self.masks[kept]
        return replace(self, boxes=self.boxes[kept], labels=self.labels[kept], crowd=self.crowd[kept], masks=masks)

    def without_padding(self) -> "Sample":
        """Return the sample with the pixels and masks of the image only."""
        height, width = self.size
        if tuple(self.pixels.shape[1:]) == self.size:
            return self
        masks = None if self.masks is None else self.masks[:, :height, :width]
        return replace(self, pixels=self.pixels[:, :height, :width], masks=masks)


def load_sample(image: AnnotatedImage, channels: int = 3, masks: bool = True) -> Sample:
    """Read an image upright, with its objects. masks: fill the outlines, if every object has one.

    Boxes that exceed the image, by rounding in most cases, are clipped.
    """
    array = np.array(_read(image.image, channels))
    height, width = array.shape[:2]
    pixels = torch.from_numpy(array.reshape(height, width, channels)).permute(2, 0, 1)
    orientation = _orientation(image)
    if orientation == UPRIGHT and (image.height, image.width) != (height, width):
        raise UserError(
            f"{image.annotations}: the size of the image {image.image.name} is wrong",
            expected=f"{width} x {height}",
            got=f"{image.width} x {image.height}",
            hint="patchword data check lists all faults of the data",
        )
    boxes = torch.from_numpy(upright_boxes(image.boxes, (image.height, image.width), orientation)).float()
    limits = torch.tensor([width, height, width, height])
    return Sample(
        pixels.contiguous(),
        torch.minimum(boxes.clamp(min=0), limits),
        torch.from_numpy(image.labels),
        torch.from_numpy(image.crowd),
        _masks(image, orientation, (height, width)) if masks and image.has_masks else None,
        (height, width),
    )


def _read(path: Path, channels: int) -> Image.Image:
    if path.suffix.lower() == ".json":
        return decode_image(embedded_image(path), path, channels)
    return read_image(path, channels)


def _orientation(image: AnnotatedImage) -> int:
    """Return the rotation that the annotations still need: the EXIF orientation if they count the stored pixels."""
    if image.image.suffix.lower() == ".json":
        return UPRIGHT
    orientation = read_orientation(image.image)
    annotated = image.height, image.width
    is_stored = counts_stored_pixels(annotated, stored_size(image.image), orientation)
    return orientation if is_stored else UPRIGHT


def _masks(image: AnnotatedImage, orientation: int, size: tuple[int, int]) -> Tensor:
    found = [upright_mask(image.mask(index).to_mask(), orientation) for index in range(len(image))]
    return torch.from_numpy(np.stack(found)) if found else torch.zeros(0, *size, dtype=torch.bool)
