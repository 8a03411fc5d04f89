"""Precision, recall and F1 per class, their means, and top-k accuracy of a classifier, in float64.

An undefined value is 0, as in scikit-learn with zero_division=0: the precision of a class that is never predicted, the
recall of a class without examples. Means are over the classes that occur among the labels or the predictions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ClassMeasures:
    """Measures per class, each (classes,). support: the number of examples; predicted: the number of predictions."""

    precision: Tensor
    recall: Tensor
    f1: Tensor
    support: Tensor
    predicted: Tensor

    @classmethod
    def of(cls, confusion: Tensor) -> "ClassMeasures":
        """Compute the measures from (classes, classes) counts: rows are true classes, columns predictions."""
        right, support, predicted = confusion.diag().double(), confusion.sum(1), confusion.sum(0)
        f1 = 2 * right / (support + predicted).clamp(min=1)
        return cls(right / predicted.clamp(min=1), right / support.clamp(min=1), f1, support, predicted)

    @property
    def precision_macro(self) -> float:
        return self._macro(self.precision)

    @property
    def recall_macro(self) -> float:
        return self._macro(self.recall)

    @property
    def f1_macro(self) -> float:
        """The mean F1: every class counts the same."""
        return self._macro(self.f1)

    @property
    def precision_weighted(self) -> float:
        return self._weighted(self.precision)

    @property
    def recall_weighted(self) -> float:
        """The mean recall weighted by the support, which equals the accuracy."""
        return self._weighted(self.recall)

    @property
    def f1_weighted(self) -> float:
        """The mean F1 weighted by the support: every example counts the same."""
        return self._weighted(self.f1)

    @property
    def balanced_accuracy(self) -> float:
        """The mean recall of the classes that have examples."""
        present = self.recall[self.support > 0]
        return float(present.mean()) if len(present) else 0.0

    def _macro(self, values: Tensor) -> float:
        occurring = values[self.support + self.predicted > 0]
        return float(occurring.mean()) if len(occurring) else 0.0

    def _weighted(self, values: Tensor) -> float:
        return float(values @ self.support.double() / self.support.sum().clamp(min=1))


def top_k_of(classes: int) -> int | None:
    """Return the k of the top-k accuracy for this number of classes: 5, or 2 for 3 to 5 classes; None for two."""
    return 5 if classes > 5 else 2 if classes > 2 else None


def top_k_accuracy(logits: Tensor, labels: Tensor, k: int) -> float:
    """Return the fraction of examples whose class is among the k most probable ones. logits: (count, classes)."""
    if not len(labels):
        return 0.0
    found = logits.topk(k, dim=-1).indices == labels[:, None]
    return float(found.any(-1).to(torch.float64).mean())
