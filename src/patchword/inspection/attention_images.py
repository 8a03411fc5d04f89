"""Opens models and images for the inspection of attention."""

from pathlib import Path

import torch
from torch import Tensor

from patchword.core.device import pick_device
from patchword.core.errors import UserError
from patchword.data.image.decoding import decode
from patchword.data.image.image_format import ImageFormat
from patchword.layers import Pyramid
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.recipes.run import Run

_PART = 256


def opened(model: Model, device: str) -> Pyramid:
    """Return an image model on its device, in evaluation mode."""
    REGISTRY.require_images(model.card.model)
    assert isinstance(model, Pyramid), "an image model is a pyramid"
    return model.to(pick_device(device)).eval()


def read_image(model: Pyramid, given: str) -> list[Tensor]:
    """Read one image in the size and channels of the model."""
    if not given:
        raise UserError("there is no image to inspect", expected="an image file, or --data test")
    if Path(given).is_dir():
        raise UserError(f"{given} is a folder", expected="one image file")
    if not Path(given).is_file():
        raise UserError(f"there is no image {given}", expected="an image file")
    return [decode(Path(given), ImageFormat.of(model.card))[None]]


def test_images_of(run: Run, model: Pyramid, part: str, count: int) -> list[Tensor]:
    """Return test images of a run, evenly spaced over its data set."""
    if part != "test":
        raise UserError("cannot inspect these images", expected="--data test", got=f"--data {part}")
    images = run.test_images(model.card)
    chosen = torch.arange(min(count, len(images))) * len(images) // min(count, len(images))
    return [images.pixels.take(index) for index in chosen.split(_PART)]
