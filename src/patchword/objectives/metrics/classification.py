"""Evaluation of a classifier: loss, accuracy, per-class accuracy, confusion matrix, most confident errors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.work_sharing import SINGLE, WorkSharing

_NAMED = 10  # classes without examples
_LOGGED = 50  # classes of a confusion matrix that is logged at each validation


@dataclass(frozen=True)
class Scores:
    """The predictions of a classifier on a data set."""

    loss: float
    labels: Tensor  # (count,) the truth
    predictions: Tensor  # (count,)
    confidence: Tensor  # (count,) the probability of the prediction
    classes: tuple[str, ...]
    logits: Tensor | None = None  # (count, classes) float32; None if only the predictions are known

    @property
    def accuracy(self) -> float:
        return float((self.predictions == self.labels).double().mean())

    def confusion(self) -> Tensor:
        """Return the confusion matrix, (classes, classes) counts: rows are true classes, columns predictions."""
        size = len(self.classes)
        return torch.bincount(self.labels * size + self.predictions, minlength=size * size).view(size, size)

    def confusion_rows(self) -> list[list[int]] | None:
        """Return the confusion matrix as lists, for a log; None for many classes."""
        return self.confusion().tolist() if len(self.classes) <= _LOGGED else None

    def mistakes(self, most: int) -> Tensor:
        """Return the indices of wrong predictions, the most confident first."""
        wrong = (self.predictions != self.labels).nonzero()[:, 0]
        return wrong[self.confidence[wrong].argsort(descending=True)[:most]]

    def lines(self) -> list[str]:
        """Return the result as text, one line per class."""
        lines = [f"Test Loss: {self.loss:.4f}"]
        for index, row in enumerate(self.confusion().tolist()):
            total, right = sum(row), row[index]
            accuracy = f"{100 * right / total:.2f}% ({right}/{total})" if total else "no examples"
            lines.append(f"Test Accuracy of Class {index} ({self.classes[index]}): {accuracy}")
        right, total = int((self.predictions == self.labels).sum()), len(self.labels)
        lines.append(f"Test Accuracy (Overall): {100 * self.accuracy:.2f}% ({right}/{total})")
        return lines

    def summary(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "accuracy": self.accuracy,
            "examples": len(self.labels),
            "classes": list(self.classes),
            "confusion": self.confusion().tolist(),
        }


def missing_classes(scores: Scores, things: str) -> list[str]:
    """Return a line that names the classes without examples; none if every class has some. things: e.g. "images"."""
    present = scores.labels.bincount(minlength=len(scores.classes)).tolist()
    missing = [name for name, count in zip(scores.classes, present, strict=True) if not count]
    if not missing:
        return []
    shown = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else "")
    return [f"no {things} of {len(missing):,} of the {len(scores.classes):,} classes: {shown}"]


@torch.inference_mode()
def score(
    model: Callable[[Tensor], Tensor],
    batches: Sequence[tuple[Tensor, Tensor, Tensor]],
    classes: tuple[str, ...],
    group: WorkSharing = SINGLE,
) -> Scores:
    """Run the model, which must be in evaluation mode, on every batch. group: the processes that divide the batches."""

    def predict(batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, ...]:
        inputs, truth, _ = batch
        scores = model(inputs).float()
        best = scores.softmax(-1).max(-1)
        return F.cross_entropy(scores, truth, reduction="sum"), truth, best.indices, best.values, scores

    losses, *rest = zip(*group.map(predict, batches), strict=True)
    truth, predictions, confidence, logits = (torch.cat(parts).cpu() for parts in rest)
    loss = float(torch.stack(losses).cpu().double().sum()) / len(truth)
    return Scores(loss, truth, predictions, confidence, classes, logits)
