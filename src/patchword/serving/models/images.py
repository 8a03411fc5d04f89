"""A classifier of images as it is served."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.data.image.image_file import decode_upload
from patchword.pipelines.images import ImageEngine
from patchword.serving.engine.request import Item
from patchword.serving.models.served import CPU_IMAGES, GPU_IMAGES, PredictGroup, ServedModel

MOST_PIXELS = 16_000_000  # of a sent image, checked in its header


class ServedImages(ServedModel):
    """Predictions as `patchword predict` makes them."""

    reads = "images"
    unit = "pixels"

    def __init__(self, name: str, engine: ImageEngine) -> None:
        self.name, self._engine = name, engine
        channels, height, width = engine.transform.format.shape
        self._channels, self._sides = channels, (height, width)

    @property
    def abilities(self) -> tuple[str, ...]:
        return ("predict",)

    @property
    def is_on_cpu(self) -> bool:
        return self._engine.device.type == "cpu"

    @property
    def budget(self) -> int:
        height, width = self._sides
        return height * width * (CPU_IMAGES if self.is_on_cpu else GPU_IMAGES)

    def describe(self) -> dict[str, Any]:
        shape = [self._channels, *self._sides]
        return {"task": "classes", "labels": list(self._engine.labels), "input": shape}

    @property
    def channels(self) -> int:
        return self._channels

    def items(self, inputs: Sequence[bytes | NDArray[np.uint8]], top: int) -> list[Item]:
        """Decode the files of images. An array (height, width, channels) holds pixels."""
        self.require("predict")
        return [self._item(data, number, top) for number, data in enumerate(inputs)]

    def sample(self) -> list[Item]:
        pixels = torch.zeros(self._channels, *self._sides, dtype=torch.uint8)
        height, width = self._sides
        return [Item(pixels, height * width, PredictGroup(1))] * (self.budget // (height * width))

    def compute(self, items: Sequence[Item]) -> Sequence[Any]:
        group = items[0].group
        assert isinstance(group, PredictGroup), "images are classified"
        answers = self._engine.classify_pixels([item.value for item in items], group.top)
        return [answer.record() for answer in answers]

    def _item(self, data: bytes | NDArray[np.uint8], number: int, top: int) -> Item:
        try:
            image = decode_upload(data, self._channels, MOST_PIXELS) if isinstance(data, bytes) else data
            pixels = self._engine.transform.pixels(image)
        except UserError as error:
            what = f"image {number}: {error.what}"
            raise UserError(what, expected=error.expected, got=error.got, hint=error.hint) from None
        height, width = self._sides
        return Item(pixels, height * width, PredictGroup(top))
