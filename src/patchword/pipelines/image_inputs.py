"""Images that a user gives to a pipeline: files, folders, PIL images, arrays and tensors."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import normalize
from patchword.data.image.decoding import convert, decode
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.sources import IMAGE_SUFFIXES

ImageInput: TypeAlias = str | Path | Image.Image | NDArray[np.uint8] | Tensor
OneImage: TypeAlias = Path | Image.Image | NDArray[np.uint8] | Tensor

_EXPECTED = "a path, a PIL image, a uint8 array (height, width[, channels]), or a tensor (channels, height, width)"
_SLACK = 0.5  # how far normalized values may be outside the range of pixels, as augmented images are


def list_images(inputs: object, purpose: str = "classify") -> list[OneImage]:
    """Return the single images of the inputs: folders are searched, tensors of several images are split."""
    found = list(_flat(inputs))
    if not found:
        raise UserError(f"there are no images to {purpose}", expected=" ".join(sorted(IMAGE_SUFFIXES)))
    return found


def _flat(inputs: object) -> Iterator[OneImage]:
    if isinstance(inputs, (str, Path)):
        yield from _files(Path(inputs))
    elif isinstance(inputs, Image.Image):
        yield inputs
    elif isinstance(inputs, np.ndarray):
        yield _checked_array(inputs)
    elif isinstance(inputs, Tensor):
        if inputs.ndim not in (3, 4):
            got = f"a tensor of shape {tuple(inputs.shape)}"
            raise UserError("this is not an image", expected="(channels, height, width), or a batch of it", got=got)
        yield from inputs if inputs.ndim == 4 else [inputs]
    elif isinstance(inputs, Sequence):
        for one in inputs:
            yield from _flat(one)
    else:
        raise UserError("this is not an image", expected=_EXPECTED, got=type(inputs).__name__)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
    elif path.is_file():
        yield path
    else:
        raise UserError(f"there is nothing at {path}", expected="an image or a folder of images")


def _checked_array(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    is_image = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if array.dtype != np.uint8 or not is_image:
        raise UserError(
            "this array is not an image",
            expected="uint8 of shape (height, width), or (height, width, channels) with 1, 3 or 4 channels",
            got=f"{array.dtype} of shape {array.shape}",
            hint="several arrays are a list of arrays; an array of normalized values is a float tensor",
        )
    return array


@dataclass(frozen=True)
class Transform:
    """Converts an image to the input of a model: upright, resized as the model's card describes, and normalized.

    >>> p.transform("photo.png").shape
    torch.Size([3, 224, 224])
    """

    card: Card

    @property
    def format(self) -> ImageFormat:
        """Size, channels, and how an image of another size is converted."""
        return ImageFormat.of(self.card)

    def __call__(self, image: ImageInput) -> Tensor:
        """Return one image as a normalized float32 tensor (channels, height, width)."""
        found = list_images(image)
        if len(found) != 1:
            raise UserError("the transform converts one image", expected="one image", got=f"{len(found):,}")
        return self.normalized(self.pixels(found[0]))

    def pixels(self, image: OneImage) -> Tensor:
        """Return (channels, height, width): uint8 pixels, or float32 if the image is a normalized float tensor."""
        if isinstance(image, Path):
            return decode(image, self.format)
        if isinstance(image, Tensor):
            return self._from_tensor(image)
        return convert(image if isinstance(image, Image.Image) else _from_array(image), self.format)

    def normalized(self, pixels: Tensor) -> Tensor:
        """Normalize uint8 pixels (..., channels, height, width); float values are normalized already."""
        if pixels.dtype != torch.uint8:
            return pixels
        found = normalize(pixels, self.card.normalization)
        return found if pixels.ndim == 4 else found[0]

    def _from_tensor(self, image: Tensor) -> Tensor:
        if image.dtype == torch.uint8:
            if len(image) not in (1, 3, 4):
                expected = "(channels, height, width) with 1, 3 or 4 channels"
                raise UserError("this tensor is not an image", expected=expected, got=tuple(image.shape))
            return convert(_from_array(image.permute(1, 2, 0).cpu().numpy()), self.format)
        if not image.is_floating_point():
            raise UserError(
                "this tensor is not an image",
                expected="uint8 pixels, or normalized float values",
                got=str(image.dtype).removeprefix("torch."),
            )
        if tuple(image.shape) != self.format.shape:
            raise UserError(
                "a tensor of normalized values must have the input size of the model",
                expected=self.format.shape,
                got=tuple(image.shape),
                hint="uint8 pixels of any size are resized and normalized",
            )
        self._check_range(image)
        return image.detach().float().cpu()

    def _check_range(self, image: Tensor) -> None:
        """Refuse values that no normalization of pixels gives, and warn of those that look unnormalized."""
        both = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(-1, self.format.channels, 1, 1)
        extremes = normalize(both, self.card.normalization)
        low, high = float(extremes.min()), float(extremes.max())
        least, most = float(image.min()), float(image.max())
        if not low - _SLACK <= least <= most <= high + _SLACK:
            raise UserError(
                "these values are not normalized pixels",
                expected=f"values from {low:.2f} to {high:.2f}",
                got=f"{least:.2f} to {most:.2f}",
                hint="give pixels from 0 to 255 as uint8, or use p.transform",
            )
        if low < 0 <= least < most <= 1:
            message = "a float tensor with values from 0 to 1 is read as normalized; p.transform normalizes images"
            warnings.warn(message, stacklevel=2)


def _from_array(array: NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else np.ascontiguousarray(array))
