"""A detector on its device, which detects in images of any sizes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.layers.dense.detector import Detector
from patchword.objectives.metrics.detection.results import select
from patchword.pipelines.dense_engine import DenseEngine
from patchword.pipelines.detection.answer import DetectionAnswer
from patchword.pipelines.detection.pixels import read_pixels
from patchword.pipelines.image_inputs import OneImage
from patchword.recipes.detection.inference import detect_images

SCORE = 0.3
"""The lowest score of an object that is shown, if the user gives none."""

BATCH = 4  # images of one step; those of a detector are large
_READ = 16  # images that are read at once


@dataclass(frozen=True)
class DetectionEngine(DenseEngine[Detector]):
    """A detector on its device. name: what the user opened, for messages."""

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

    def detect(self, images: Sequence[OneImage], score: float = SCORE) -> list[DetectionAnswer | UserError]:
        """Return the objects of each image with at least this score, or why the image cannot be read."""
        check_score(score)
        return [answer for part in read_pixels(images, self.channels, _READ) for answer in self._answers(part, score)]

    def _answers(self, read: Sequence[Tensor | UserError], score: float) -> Iterator[DetectionAnswer | UserError]:
        pixels = [one for one in read if isinstance(one, Tensor)]
        found = iter(detect_images(self.model, pixels, BATCH, self.precision) if pixels else [])
        for one in read:
            if isinstance(one, UserError):
                yield one
            else:
                height, width = one.shape[-2:]
                yield DetectionAnswer(select(next(found), score), self.labels, height, width)


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
