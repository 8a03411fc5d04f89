"""A detector on its device, which detects in images of any sizes."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.layers.dense.detector import Detector
from patchword.objectives.metrics.detection.results import select
from patchword.pipelines.detection.answer import DetectionAnswer
from patchword.pipelines.detection.pixels import image_pixels
from patchword.pipelines.image_inputs import OneImage
from patchword.recipes.detection.inference import channels_of, detect_images
from patchword.training.step import Precision

SCORE = 0.3
"""The lowest score of an object that is shown, if the user gives none."""

BATCH = 4  # images of one step; those of a detector are large
_READ = 16  # images that are read at once


@dataclass(frozen=True)
class DetectionEngine:
    """A detector on its device. name: what the user opened, for messages."""

    name: str
    model: Detector
    device: torch.device
    precision: Precision

    @classmethod
    def of(
        cls,
        model: Detector,
        device: str = "auto",
        precision: Literal["auto", "float32", "bfloat16"] = "auto",
        name: str = "",
    ) -> "DetectionEngine":
        """Move a detector to its device, in evaluation mode."""
        target = pick_device(device)
        return cls(name or model.card.model, model.to(target).eval(), target, pick_precision(precision, target))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; numbers if they have no names."""
        card = self.model.card
        return card.labels or tuple(str(number) for number in range(card.config["classes"]))

    @property
    def channels(self) -> int:
        """Channels of an image."""
        return channels_of(self.model)

    def detect(self, images: Sequence[OneImage], score: float = SCORE) -> list[DetectionAnswer | UserError]:
        """Return the objects of each image with at least this score, or why the image cannot be read."""
        check_score(score)
        return [answer for part in self._parts(images) for answer in self._answers(part, score)]

    def _answers(self, read: Sequence[Tensor | UserError], score: float) -> Iterator[DetectionAnswer | UserError]:
        pixels = [one for one in read if isinstance(one, Tensor)]
        found = iter(detect_images(self.model, pixels, BATCH, self.precision) if pixels else [])
        for one in read:
            if isinstance(one, UserError):
                yield one
            else:
                height, width = one.shape[-2:]
                yield DetectionAnswer(select(next(found), score), self.labels, height, width)

    def _parts(self, images: Sequence[OneImage]) -> Iterator[list[Tensor | UserError]]:
        def tried(image: OneImage) -> Tensor | UserError:
            try:
                return image_pixels(image, self.channels)
            except UserError as error:
                return error

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for start in range(0, len(images), _READ):
                yield list(pool.map(tried, images[start : start + _READ]))


def check_score(score: float) -> float:
    """Return a score threshold; it must be from 0 to 1."""
    if not 0 <= score <= 1:
        raise UserError("score", expected="0 to 1", got=score)
    return score


def require_one(answers: Sequence[DetectionAnswer | UserError]) -> None:
    """Raise the first error if no image could be read."""
    errors = [answer for answer in answers if isinstance(answer, UserError)]
    if errors and len(errors) == len(answers):
        raise errors[0]
