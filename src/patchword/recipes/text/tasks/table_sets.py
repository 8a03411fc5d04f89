"""The texts of a table with their targets: a class, several labels or a number."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.data.text.batching.batches import Examples
from patchword.data.text.formats.tables import Table
from patchword.objectives.metrics.classification import Scores
from patchword.objectives.metrics.metrics import measure
from patchword.objectives.text import TextClasses, TextLabels, TextNumbers
from patchword.recipes.text.inference.outputs import Outputs
from patchword.recipes.text.tasks.sets import Judged
from patchword.training.step import Objective


@dataclass(frozen=True)
class TableSet(ABC):
    """The texts of a table with their targets. truth: (rows,), or (rows, labels). metrics: the names of the metrics."""

    table: Table
    examples: Examples
    truth: Tensor
    labels: tuple[str, ...]
    metrics: tuple[str, ...]

    @abstractmethod
    def objective(self, forward: Callable[[Any], Any], device: torch.device) -> Objective: ...

    @abstractmethod
    def judge_scores(self, scores: Tensor) -> Judged:
        """Score the rows. scores: (rows, classes)."""

    def judge(self, outputs: Outputs) -> Judged:
        """Average the scores over the windows of a text, and score the rows."""
        return self.judge_scores(merged(torch.stack(outputs), self.examples.owner, len(self.truth)))


@dataclass(frozen=True)
class ClassSet(TableSet):
    """One class per text. weights: (classes,) class weights in training. smoothing: label smoothing in training."""

    weights: Tensor | None = None
    smoothing: float = 0.0

    def objective(self, forward: Callable[[Any], Any], device: torch.device) -> Objective:
        weights = None if self.weights is None else self.weights.to(device)
        return TextClasses(forward, weights, self.smoothing)

    def judge_scores(self, scores: Tensor) -> Judged:
        """The loss is without class weights and label smoothing, so that runs with and without them are comparable."""
        loss = F.cross_entropy(scores, self.truth)
        return Judged(float(loss), measure(self.metrics, scores.argmax(-1), self.truth), scores.softmax(-1))

    def counts(self) -> dict[str, int]:
        """Return the number of texts of each class."""
        found = self.truth.bincount(minlength=len(self.labels)).tolist()
        return dict(zip(self.labels, found, strict=True))

    def scores(self, judged: Judged) -> Scores:
        best = judged.answers.max(-1)
        logits = judged.answers.clamp(min=torch.finfo(torch.float32).tiny).log()
        return Scores(judged.loss, self.truth, best.indices, best.values, self.labels, logits)


@dataclass(frozen=True)
class LabelsSet(TableSet):
    def objective(self, forward: Callable[[Any], Any], device: torch.device) -> Objective:
        return TextLabels(forward)

    def judge_scores(self, scores: Tensor) -> Judged:
        loss = F.binary_cross_entropy_with_logits(scores, self.truth.to(scores.dtype))
        return Judged(float(loss), measure(self.metrics, scores > 0, self.truth.bool()), scores.sigmoid())


@dataclass(frozen=True)
class NumberSet(TableSet):
    def objective(self, forward: Callable[[Any], Any], device: torch.device) -> Objective:
        return TextNumbers(forward)

    def judge_scores(self, scores: Tensor) -> Judged:
        loss = F.mse_loss(scores[:, 0], self.truth.to(scores.dtype))
        return Judged(float(loss), measure(self.metrics, scores[:, 0], self.truth), scores[:, 0])


def merged(scores: Tensor, owner: Tensor, rows: int) -> Tensor:
    """Average the scores over the windows of each row: (texts, classes) -> (rows, classes)."""
    total = scores.new_zeros(rows, scores.shape[-1]).index_add(0, owner, scores)
    return total / torch.bincount(owner, minlength=rows)[:, None].clamp(min=1)
