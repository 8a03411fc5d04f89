"""A segmenter on its device, which segments images of any sizes."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, cast

import torch
from torch import Tensor

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.pipelines.detection.pixels import image_pixels
from patchword.pipelines.image_inputs import OneImage
from patchword.pipelines.segmentation.answer import LabelArray, SegmentationAnswer
from patchword.recipes.segmentation.inference import InferenceOptions, channels_of, segment_images
from patchword.reports.detection.colors import Color
from patchword.reports.segmentation.overlay import colors_of
from patchword.training.step import Precision

_READ = 8  # images that are read at once


@dataclass(frozen=True)
class SegmentationEngine:
    """A segmenter on its device. name: what the user opened, for messages. colors: of the classes, if the training
    data gave them.
    """

    name: str
    model: Segmenter
    device: torch.device
    precision: Precision
    options: InferenceOptions = field(default_factory=InferenceOptions)
    colors: tuple[Color, ...] = ()

    @classmethod
    def of(
        cls,
        model: Segmenter,
        device: str = "auto",
        precision: Literal["auto", "float32", "bfloat16"] = "auto",
        name: str = "",
        options: InferenceOptions | None = None,
        colors: tuple[Color, ...] = (),
    ) -> "SegmentationEngine":
        """Move a segmenter to its device, in evaluation mode. options: None segments whole images in their own size."""
        target = pick_device(device)
        chosen = options or InferenceOptions(window=int(model.card.config["crop"]), at_once=1)
        found = pick_precision(precision, target)
        return cls(name or model.card.model, model.to(target).eval(), target, found, chosen, colors)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; numbers if they have no names."""
        card = self.model.card
        return card.labels or tuple(str(number) for number in range(card.config["classes"]))

    @property
    def channels(self) -> int:
        """Channels of an image."""
        return channels_of(self.model)

    def segment(self, images: Sequence[OneImage]) -> list[SegmentationAnswer | UserError]:
        """Return the label map of each image, or why the image cannot be read."""
        return [answer for part in self._parts(images) for answer in self._answers(part)]

    def _answers(self, read: Sequence[Tensor | UserError]) -> Iterator[SegmentationAnswer | UserError]:
        pixels = [one for one in read if isinstance(one, Tensor)]
        found = iter(segment_images(self.model, pixels, self.options, self.precision) if pixels else [])
        colors = colors_of(len(self.labels), self.colors)
        for one in read:
            if isinstance(one, UserError):
                yield one
            else:
                yield SegmentationAnswer(cast(LabelArray, next(found).numpy()), self.labels, colors)

    def _parts(self, images: Sequence[OneImage]) -> Iterator[list[Tensor | UserError]]:
        def tried(image: OneImage) -> Tensor | UserError:
            try:
                return image_pixels(image, self.channels)
            except UserError as error:
                return error

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for start in range(0, len(images), _READ):
                yield list(pool.map(tried, images[start : start + _READ]))
