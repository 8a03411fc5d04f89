"""Distillation of image models: outputs of the class and the distillation token, and the teacher's input."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.card import Card, Normalization
from patchword.core.grid import sides
from patchword.layers.heads.image import DistilledHead, separate_heads
from patchword.layers.model import Model
from patchword.layers.pyramid import Pyramid
from patchword.objectives.distillation.answers import Choices, one_each
from patchword.objectives.distillation.distillation import Recorded, Recorder

Token = Literal["class", "distillation"]
GREY = (0.299, 0.587, 0.114)  # weights of red, green and blue in the brightness


def of_distillation_token(answer: Any, piece: Any) -> Tensor:
    """Return the logits of the distillation token; a model without one has a single output."""
    scores: Tensor = answer[1] if isinstance(answer, tuple) else answer
    return scores.float()


ON: dict[Token, Choices] = {"class": one_each, "distillation": of_distillation_token}


def class_answer(answer: Any) -> Tensor:
    """Return the logits of the class token, which are trained on the labels, as in DeiT."""
    scores: Tensor = answer[0] if isinstance(answer, tuple) else answer
    return scores


def has_distillation_token(model: Model) -> bool:
    return isinstance(model.head, DistilledHead)


def image_recorder(model: Model, forward: Callable[[Tensor], Any]) -> Recorder:
    """Return a function that runs the model and records its output: two outputs if it has a distillation token.

    forward: the model, possibly compiled.
    """
    head = model.head
    if not isinstance(head, DistilledHead):
        return lambda images: Recorded(forward(images))

    def record(images: Tensor) -> Recorded:
        with separate_heads(head):
            return Recorded(forward(images))

    return record


class SamePixels:
    """Converts a student's input to its teacher's: the teacher's channels, image size and normalization.

    The pixels keep the student's augmentation, mixing and erasing. If nothing differs, the input is returned as it is.
    """

    def __init__(self, student: Card, teacher: Card, device: torch.device) -> None:
        self.channels, self.size = teacher.config["channels"], sides(teacher.config["image"])
        self.own, self.theirs = _constants(student.normalization, device), _constants(teacher.normalization, device)
        self.grey = torch.tensor(GREY, device=device).view(1, 3, 1, 1)
        self.same_normalization = student.normalization == teacher.normalization

    def __call__(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> the same with the teacher's channels, height and width."""
        if self.same_normalization and images.shape[1] == self.channels and tuple(images.shape[2:]) == self.size:
            return images
        pixels = images.float() * self.own[1] + self.own[0]
        if pixels.shape[1] == 3 and self.channels == 1:
            pixels = (pixels * self.grey).sum(1, keepdim=True)
        if tuple(pixels.shape[2:]) != self.size:
            pixels = F.interpolate(pixels, size=self.size, mode="bicubic", antialias=True)
        return ((pixels - self.theirs[0]) / self.theirs[1]).expand(-1, self.channels, -1, -1)


def _constants(normalization: Normalization, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation per channel, each (1, channels, 1, 1)."""
    both = (normalization.mean, normalization.std)
    mean, std = (torch.tensor(part, device=device).view(1, -1, 1, 1) for part in both)
    return mean, std


@torch.inference_mode()
def token_accuracies(model: Model, batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> dict[str, float]:
    """Return the accuracies of the class token and the distillation token; empty for a model without the latter."""
    if not isinstance(model, Pyramid) or not isinstance(model.head, DistilledHead):
        return {}
    right: list[Tensor] = []
    count = 0
    for inputs, labels, _ in batches:
        answers = model.head.pair(*model.encode(inputs))
        right.append(torch.stack([(scores.argmax(-1) == labels).sum() for scores in answers]))
        count += len(labels)
    accuracies = (torch.stack(right).sum(0).double() / count).tolist()
    return {"class_token": accuracies[0], "distillation_token": accuracies[1]}
