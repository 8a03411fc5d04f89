"""Measures of a binary classifier at every threshold of the probability of the positive class, in float64."""

from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.objectives.metrics.metrics import ranks


@dataclass(frozen=True)
class ThresholdCurve:
    """Results at every distinct probability: an example is predicted positive if its probability is at least that.

    thresholds: (count,), highest first. true_positives, false_positives: (count,) at each of them.
    positives, negatives: the number of examples of each class.
    """

    thresholds: Tensor
    true_positives: Tensor
    false_positives: Tensor
    positives: int
    negatives: int

    @classmethod
    def of(cls, probability: Tensor, positive: Tensor) -> "ThresholdCurve":
        """Compute the curve. probability: (count,) of the positive class. positive: (count,) bool, the truth."""
        order = probability.argsort(descending=True, stable=True)
        ordered, truth = probability[order].double(), positive[order].double()
        last = torch.cat([ordered.diff() != 0, torch.ones(min(1, len(ordered)), dtype=torch.bool)])
        hits = truth.cumsum(0)[last]
        found = torch.arange(1, len(ordered) + 1, dtype=torch.float64)[last]
        total = int(truth.sum())
        return cls(ordered[last], hits, found - hits, total, len(truth) - total)

    @property
    def precision(self) -> Tensor:
        return self.true_positives / (self.true_positives + self.false_positives)

    @property
    def recall(self) -> Tensor:
        return self.true_positives / max(1, self.positives)

    @property
    def f1(self) -> Tensor:
        return 2 * self.true_positives / (self.true_positives + self.false_positives + self.positives)

    def average_precision(self) -> float | None:
        """Return the sum of precision x (increase of recall) over the thresholds; None without positive examples."""
        if not self.positives:
            return None
        return float(self.precision @ self.recall.diff(prepend=self.recall.new_zeros(1)))

    def best_f1_threshold(self) -> float | None:
        """Return the threshold with the highest F1; None without positive examples.

        It lies in the middle between two probabilities that occur, so that it does not depend on rounding. Of several
        with the same F1, the one nearest to 0.5 is returned.
        """
        if not self.positives:
            return None
        lower = torch.cat([self.thresholds[1:], self.thresholds.new_zeros(1)])
        middle = (self.thresholds + lower) / 2
        best = middle[self.f1 >= self.f1.max() - 1e-12]
        return float(best[(best - 0.5).abs().argmin()])


def roc_auc(probability: Tensor, positive: Tensor) -> float | None:
    """Return the area under the ROC curve: the probability that a positive example scores higher than a negative one.

    Ties count half. None if one of the classes has no examples.
    """
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return None
    above = ranks(probability)[positive].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def at_threshold(probability: Tensor, positive: Tensor, threshold: float) -> Tensor:
    """Return the (2, 2) confusion matrix of predicting the positive class from this probability on.

    Rows are the true class, columns the predicted class; the positive class is the second.
    """
    predicted = (probability >= threshold).long()
    return torch.bincount(positive.long() * 2 + predicted, minlength=4).view(2, 2)
