"""Distillation losses on the teacher's outputs: soft targets, hard targets, labels, numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.objectives.distillation.distillation import ByExamples, Part, Recorded
from patchword.objectives.text import padded_scores

LOWEST = -1e30  # instead of -inf, so that 0 * LOWEST is 0: a class with teacher probability 0 adds no loss

# (output, micro-batch) -> logits (count, choices): one row per decision
Choices = Callable[[Any, Any], Tensor]


def one_each(answer: Any, piece: Any) -> Tensor:
    """Return the logits of each example's class, or of the word at each position of `predict_at`.

    A second output, such as next-sentence prediction, is not distilled.
    """
    scores: Tensor = answer[0] if isinstance(answer, tuple) else answer
    return scores.float()


def of_tags(answer: Any, piece: Any) -> Tensor:
    """Return the logits of the tags, for each token that has a target."""
    scores: Tensor = answer.float().flatten(0, 1)
    return scores[piece.flat_targets >= 0]


def of_spans(answer: Any, piece: Any) -> Tensor:
    """Return the logits of two decisions per text: the first and the last token of the answer."""
    return padded_scores(answer, piece.text).transpose(1, 2).flatten(0, 1)


@dataclass(frozen=True)
class SoftTargets(ByExamples):
    """KL(teacher || student) at temperature T, times T^2, so that its gradient has the same scale for every T.

    See Hinton et al., 2015, section 2.1.
    """

    temperature: float = 1.0
    choices: Choices = one_each
    reads: Part = field(default="answer", init=False)

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        target, log_probs = self._logs(teacher, piece), self._logs(student, piece)
        divergence = (target.exp() * (target - log_probs)).sum(-1)
        return self.temperature**2 * _mean(divergence)

    def _logs(self, seen: Recorded, piece: Any) -> Tensor:
        scores = self.choices(seen.answer, piece) / self.temperature
        return scores.log_softmax(-1).clamp(min=LOWEST)


@dataclass(frozen=True)
class SoftCrossEntropy(ByExamples):
    """Soft cross-entropy as in TinyBERT's prediction-layer distillation: the mean of -p log q over the choices."""

    temperature: float = 1.0
    choices: Choices = one_each
    reads: Part = field(default="answer", init=False)

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        target = (self.choices(teacher.answer, piece) / self.temperature).softmax(-1)
        log_probs = (self.choices(student.answer, piece) / self.temperature).log_softmax(-1).clamp(min=LOWEST)
        return _mean(-(target * log_probs).mean(-1))


@dataclass(frozen=True)
class SoftTargetsByClass(SoftTargets):
    """Soft targets as in DeiT's code: the mean over the classes instead of the sum."""

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        return super().__call__(student, teacher, piece) / self.choices(teacher.answer, piece).shape[-1]


@dataclass(frozen=True)
class HardTargets(ByExamples):
    """Cross-entropy with the teacher's argmax as the label (Touvron et al., 2020).

    smoothing: label smoothing. The paper's text has 0.1, its code none.
    """

    choices: Choices = one_each
    smoothing: float = 0.0
    reads: Part = field(default="answer", init=False)

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        target = self.choices(teacher.answer, piece).argmax(-1)
        scores = self.choices(student.answer, piece)
        return _mean(F.cross_entropy(scores, target, reduction="none", label_smoothing=self.smoothing))


@dataclass(frozen=True)
class SoftLabels(ByExamples):
    """Multi-label distillation: binary cross-entropy with the teacher's probabilities at temperature T, times T^2."""

    temperature: float = 1.0
    reads: Part = field(default="answer", init=False)

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        target, logits = teacher.answer.float() / self.temperature, student.answer.float() / self.temperature
        losses = F.binary_cross_entropy_with_logits(logits, target.sigmoid(), reduction="none").mean(-1)
        return self.temperature**2 * _mean(losses)


@dataclass(frozen=True)
class SameNumbers(ByExamples):
    """Distillation for regression: the squared error to the teacher's prediction."""

    reads: Part = field(default="answer", init=False)

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        return F.mse_loss(student.answer.float(), teacher.answer.float())


def _mean(losses: Tensor) -> Tensor:
    """Return the mean, or 0 for an empty tensor, because a micro-batch may have no masked word."""
    return losses.sum() / max(1, torch.numel(losses))
