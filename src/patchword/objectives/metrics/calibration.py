"""Calibration of a classifier: whether a probability of 80% is right in 80% of the cases (Guo et al., 2017).

Expected calibration error (ECE): the predictions are put into 15 bins of equal width by the probability of the
predicted class, (0, 1/15], (1/15, 2/15], ..., and ECE is the mean over the bins of |accuracy - mean probability|,
weighted by the number of predictions of a bin. Brier score: the mean over the examples of the squared distance between
the probabilities and the one-hot label, summed over the classes: 0 to 2.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

BINS = 15
LOWEST, HIGHEST = 0.05, 20.0  # of a fitted temperature
_ITERATIONS = 100


@dataclass(frozen=True)
class Reliability:
    """The bins of a reliability diagram, each (bins,): predictions, accuracy and mean probability; 0 if empty."""

    counts: Tensor
    accuracy: Tensor
    confidence: Tensor

    @classmethod
    def of(cls, confidence: Tensor, right: Tensor, bins: int = BINS) -> "Reliability":
        """Sort predictions into bins. confidence: (count,) the probability of the prediction. right: (count,) bool."""
        edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
        place = torch.bucketize(confidence.double(), edges[1:-1])  # a bin includes its upper edge
        counts = torch.bincount(place, minlength=bins)
        sums = (torch.bincount(place, values.double(), minlength=bins) for values in (right, confidence))
        accuracy, mean = (total.double() / counts.clamp(min=1) for total in sums)
        return cls(counts, accuracy, mean)

    @property
    def ece(self) -> float:
        """The expected calibration error, 0 to 1."""
        gaps = (self.accuracy - self.confidence).abs()
        return float(self.counts.double() @ gaps / self.counts.sum().clamp(min=1))


@dataclass(frozen=True)
class CalibrationMeasures:
    """nll: the negative log-likelihood, which is the cross-entropy in nats. brier: the Brier score, 0 to 2."""

    nll: float
    brier: float
    reliability: Reliability

    @classmethod
    def of(cls, logits: Tensor, labels: Tensor, temperature: float = 1.0) -> "CalibrationMeasures":
        """Measure the probabilities softmax(logits / temperature). logits: (count, classes); labels: (count,)."""
        scaled = logits.double() / temperature
        probabilities = scaled.softmax(-1)
        best = probabilities.max(-1)
        brier = (probabilities - F.one_hot(labels, logits.shape[1])).square().sum(-1).mean()
        reliability = Reliability.of(best.values, best.indices == labels)
        return cls(float(F.cross_entropy(scaled, labels)), float(brier), reliability)

    @property
    def ece(self) -> float:
        return self.reliability.ece

    def summary(self) -> dict[str, float]:
        return {"nll": self.nll, "brier": self.brier, "ece": self.ece}


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the temperature that minimizes the cross-entropy of softmax(logits / temperature), from LOWEST to HIGHEST.

    Dividing all logits by one number changes no prediction, only the probabilities. The cross-entropy is convex in
    1 / temperature, so Newton's method with a bracket finds the minimum.
    """
    logits = logits.double()
    true = logits.gather(1, labels[:, None])[:, 0]
    low, high, scale = 1 / HIGHEST, 1 / LOWEST, 1.0
    for _ in range(_ITERATIONS):
        probabilities = (scale * logits).softmax(-1)
        mean = (probabilities * logits).sum(-1)
        slope = float((mean - true).mean())
        curvature = float(((probabilities * logits.square()).sum(-1) - mean.square()).mean())
        low, high = (scale, high) if slope < 0 else (low, scale)
        step = scale - slope / curvature if curvature > 0 else low
        following = step if low < step < high else (low * high) ** 0.5
        if abs(following - scale) <= 1e-12 * scale:
            break
        scale = following
    return 1 / scale


def has_temperature(logits: Tensor, labels: Tensor, temperature: float) -> bool:
    """Return False if the fitted temperature says nothing, since the cross-entropy has no minimum within the range.

    If every prediction is correct, as on few or easy examples, a lower temperature is always better: it would make the
    model sure of everything.
    """
    all_right = bool((logits.argmax(-1) == labels).all())
    return not all_right and 1.001 * LOWEST < temperature < HIGHEST / 1.001
