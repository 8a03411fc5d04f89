"""Distillation losses on the teacher's outputs: soft targets, hard targets, labels, numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.objectives.distillation.distillation import ByExamples, Part, Seen
from patchword.objectives.text import padded_scores

LOWEST = -1e30  # instead of -inf: a choice with teacher probability 0 adds no loss

# (output, micro-batch) -> (count, choices): the logits of each decision
Choices = Callable[[Any, Any], Tensor]


def one_each(answer: Any, piece: Any) -> Tensor:
    """Logits of the class of each example, or of the word at each of `predict_at`. Other outputs, such as next
    sentences, are not distilled."""
    scores: Tensor = answer[0] if isinstance(answer, tuple) else answer
    return scores.float()


def of_tags(answer: Any, piece: Any) -> Tensor:
    """Logits of the tag of each token that has a target."""
    scores: Tensor = answer.float().flatten(0, 1)
    return scores[piece.flat_targets >= 0]


def of_spans(answer: Any, piece: Any) -> Tensor:
    """Logits of two decisions per text: the first token of the answer and the last one."""
    return padded_scores(answer, piece.text).transpose(1, 2).flatten(0, 1)


@dataclass(frozen=True)
class SoftTargets(ByExamples):
    """KL(teacher || student) of both distributions at a temperature T, times T^2, so that the size of its gradient does
    not depend on T (Hinton et al., 2015, 2.1)."""

    temperature: float = 1.0
    choices: Choices = one_each
    reads: Part = field(default="answer", init=False)

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        told, said = self._logs(teacher, piece), self._logs(student, piece)
        divergence = (told.exp() * (told - said)).sum(-1)
        return self.temperature**2 * _mean(divergence)

    def _logs(self, seen: Seen, piece: Any) -> Tensor:
        scores = self.choices(seen.answer, piece) / self.temperature
        return scores.log_softmax(-1).clamp(min=LOWEST)


@dataclass(frozen=True)
class SoftCrossEntropy(ByExamples):
    """TinyBERT's prediction stage: -sum p log q / choices, also averaged over the choices."""

    temperature: float = 1.0
    choices: Choices = one_each
    reads: Part = field(default="answer", init=False)

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        told = (self.choices(teacher.answer, piece) / self.temperature).softmax(-1)
        said = (self.choices(student.answer, piece) / self.temperature).log_softmax(-1).clamp(min=LOWEST)
        return _mean(-(told * said).mean(-1))


@dataclass(frozen=True)
class SoftTargetsByClass(SoftTargets):
    """Soft targets as in DeiT's code: also averaged over the classes, so the loss is smaller by their number."""

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        return super().__call__(student, teacher, piece) / self.choices(teacher.answer, piece).shape[-1]


@dataclass(frozen=True)
class HardTargets(ByExamples):
    """Cross-entropy with the teacher's argmax as the label (Touvron et al., 2020).

    smoothing: label smoothing. The paper's text has 0.1, its code none.
    """

    choices: Choices = one_each
    smoothing: float = 0.0
    reads: Part = field(default="answer", init=False)

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        target = self.choices(teacher.answer, piece).argmax(-1)
        scores = self.choices(student.answer, piece)
        return _mean(F.cross_entropy(scores, target, reduction="none", label_smoothing=self.smoothing))


@dataclass(frozen=True)
class SoftLabels(ByExamples):
    """For multi-label outputs: the binary cross-entropy with the teacher's probabilities, times T^2."""

    temperature: float = 1.0
    reads: Part = field(default="answer", init=False)

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        told, said = teacher.answer.float() / self.temperature, student.answer.float() / self.temperature
        losses = F.binary_cross_entropy_with_logits(said, told.sigmoid(), reduction="none").mean(-1)
        return self.temperature**2 * _mean(losses)


@dataclass(frozen=True)
class SameNumbers(ByExamples):
    """For regression: the squared error to the teacher's number, without a temperature."""

    reads: Part = field(default="answer", init=False)

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        return F.mse_loss(student.answer.float(), teacher.answer.float())


def _mean(losses: Tensor) -> Tensor:
    """Return the mean, 0 for an empty tensor: a micro-batch may have no masked word."""
    return losses.sum() / max(1, torch.numel(losses))
