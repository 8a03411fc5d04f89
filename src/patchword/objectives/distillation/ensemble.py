"""Several teachers of one student: their probabilities are averaged."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.core.card import Card
from patchword.objectives.distillation.distillation import Recorded
from patchword.objectives.distillation.images import SamePixels


def average_answers(answers: Sequence[Tensor], temperature: float = 1.0) -> Tensor:
    """Return logits whose softmax at the temperature is the mean of the teachers' softmax at it.

    So a loss on one teacher's logits at this temperature is that on the mean probabilities. The logits of a single
    teacher are returned unchanged.

    answers: (count, classes), of each teacher.
    """
    if len(answers) == 1:
        return answers[0]
    logs = torch.stack([(scores.float() / temperature).log_softmax(-1) for scores in answers])
    return temperature * (logs.logsumexp(0) - math.log(len(answers)))


@dataclass(frozen=True)
class ImageTeacherRun:
    """A teacher that is ready to run: its card, and the function that runs it, which may be compiled."""

    card: Card
    forward: Callable[[Tensor], Tensor]


class TeachersOfImages:
    """Runs all teachers on the student's augmented batch, each with its own normalization and image size.

    They run in `precision`, whatever the student's is: a small student in float32 would otherwise wait for them.
    """

    def __init__(
        self,
        student: Card,
        teachers: Iterable[ImageTeacherRun],
        device: torch.device,
        precision: str,
        temperature: float = 1.0,
    ) -> None:
        self.runs = [(teacher.forward, SamePixels(student, teacher.card, device)) for teacher in teachers]
        self.device, self.precision, self.temperature = device, precision, temperature

    def __call__(self, images: Tensor) -> Recorded:
        """(batch, channels, height, width) -> the logits of the averaged probabilities"""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            answers = [forward(pixels(images)) for forward, pixels in self.runs]
        return Recorded(average_answers(answers, self.temperature))
