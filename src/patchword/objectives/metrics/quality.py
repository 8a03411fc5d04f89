"""Everything that is measured of a classifier besides loss and accuracy, and what is fitted on validation data."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from patchword.objectives.metrics.calibration import CalibrationMeasures, fit_temperature, has_temperature
from patchword.objectives.metrics.class_measures import ClassMeasures, top_k_accuracy, top_k_of
from patchword.objectives.metrics.classification import Scores
from patchword.objectives.metrics.thresholds import ThresholdCurve, at_threshold, roc_auc

MOST_FITTED = 20_000  # examples that the temperature, one number, is fitted on: evenly spaced ones of more
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # of the table in the report


@dataclass(frozen=True)
class Fitted:
    """What was fitted on the validation examples, never on test examples.

    temperature: the divisor of the logits with the lowest cross-entropy; 1 if these examples do not determine it.
    threshold: of two classes, the probability of the second class with the best F1; None for more classes. examples:
    how many there were.
    """

    temperature: float
    threshold: float | None
    examples: int

    @property
    def has_temperature(self) -> bool:
        """False if the temperature is 1 because the examples do not determine one."""
        return self.temperature != 1

    @classmethod
    def of(cls, scores: Scores) -> "Fitted | None":
        """Fit on these scores; None without examples or logits."""
        if scores.logits is None or not len(scores.labels):
            return None
        binary = BinaryQuality.of(scores)
        threshold = binary.curve.best_f1_threshold() if binary else None
        every = -(-len(scores.labels) // MOST_FITTED)
        logits, labels = scores.logits[::every], scores.labels[::every]
        temperature = fit_temperature(logits, labels)
        known = has_temperature(logits, labels, temperature)
        return cls(temperature if known else 1.0, threshold, len(scores.labels))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "split": "validation"}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Fitted":
        return cls(float(values["temperature"]), values["threshold"], int(values["examples"]))


@dataclass(frozen=True)
class BinaryQuality:
    """Results of two classes, of which the second is called positive, by the threshold of its probability."""

    probability: Tensor  # (count,) float64, of the positive class
    positive: Tensor  # (count,) bool, the truth

    @classmethod
    def of(cls, scores: Scores) -> "BinaryQuality | None":
        """Return the results of a classifier of two classes; None for another number of classes."""
        if scores.logits is None or len(scores.classes) != 2:
            return None
        return cls(scores.logits.double().softmax(-1)[:, 1], scores.labels == 1)

    @cached_property
    def curve(self) -> ThresholdCurve:
        return ThresholdCurve.of(self.probability, self.positive)

    @property
    def roc_auc(self) -> float | None:
        return roc_auc(self.probability, self.positive)

    def at(self, threshold: float) -> dict[str, Any]:
        """Return precision, recall, F1 and the confusion matrix at a threshold."""
        confusion = at_threshold(self.probability, self.positive, threshold)
        measures = ClassMeasures.of(confusion)
        values = {name: float(getattr(measures, name)[1]) for name in ("precision", "recall", "f1")}
        return {"threshold": threshold, **values, "confusion": confusion.tolist()}

    def table(self, thresholds: Iterable[float] = THRESHOLDS) -> list[dict[str, Any]]:
        return [self.at(threshold) for threshold in thresholds]


@dataclass(frozen=True)
class Quality:
    """The measures of a classifier on evaluated examples. fitted: from its validation examples; None if unknown."""

    scores: Scores
    fitted: Fitted | None = None

    @cached_property
    def classes(self) -> ClassMeasures:
        return ClassMeasures.of(self.scores.confusion())

    @cached_property
    def calibration(self) -> CalibrationMeasures | None:
        """The calibration of the model's own probabilities."""
        return self._calibrated(1.0)

    @cached_property
    def calibrated(self) -> CalibrationMeasures | None:
        """The calibration of the probabilities with the fitted temperature."""
        return self._calibrated(self.fitted.temperature) if self.fitted else None

    @cached_property
    def binary(self) -> BinaryQuality | None:
        return BinaryQuality.of(self.scores)

    def measures(self) -> dict[str, float]:
        """Return the scores by name, the most important first."""
        found = {
            "balanced-accuracy": self.classes.balanced_accuracy,
            "f1-macro": self.classes.f1_macro,
            "f1-weighted": self.classes.f1_weighted,
        }
        k = top_k_of(len(self.scores.classes))
        if k and self.scores.logits is not None:
            found[f"top{k}-accuracy"] = top_k_accuracy(self.scores.logits, self.scores.labels, k)
        if self.binary:
            areas = {"roc-auc": self.binary.roc_auc, "average-precision": self.binary.curve.average_precision()}
            found |= {name: value for name, value in areas.items() if value is not None}
        if self.calibration:
            found |= {"ece": self.calibration.ece, "brier": self.calibration.brier}
        return found

    def summary(self) -> dict[str, Any]:
        """Return the content of evaluation.json beside loss, accuracy and confusion."""
        return {**self.measures(), "per_class": self._per_class(), **self._calibration(), **self._binary()}

    def _calibrated(self, temperature: float) -> CalibrationMeasures | None:
        logits, labels = self.scores.logits, self.scores.labels
        return CalibrationMeasures.of(logits, labels, temperature) if logits is not None and len(labels) else None

    def _per_class(self) -> list[dict[str, Any]]:
        names = ("precision", "recall", "f1", "support")
        columns = [getattr(self.classes, name).tolist() for name in names]
        return [
            {"class": label, **dict(zip(names, values, strict=True))}
            for label, *values in zip(self.scores.classes, *columns, strict=True)
        ]

    def _calibration(self) -> dict[str, Any]:
        if self.calibration is None:
            return {}
        bins = self.calibration.reliability
        values: dict[str, Any] = {"before": self.calibration.summary()}
        if self.fitted and self.calibrated:
            values |= {"temperature": self.fitted.temperature, "after": self.calibrated.summary()}
        lists = {name: getattr(bins, name).tolist() for name in ("counts", "accuracy", "confidence")}
        return {"calibration": {**values, "bins": lists}}

    def _binary(self) -> dict[str, Any]:
        if self.binary is None:
            return {}
        chosen = self.fitted.threshold if self.fitted else None
        values: dict[str, Any] = {"positive": self.scores.classes[1], "thresholds": self.binary.table()}
        return {"binary": values | ({"chosen": self.binary.at(chosen)} if chosen is not None else {})}
