"""Measures of classifiers against scikit-learn, and what is fitted on validation examples."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    precision_recall_curve,
    precision_recall_fscore_support,
    roc_auc_score,
    top_k_accuracy_score,
)

from patchword.objectives.metrics.calibration import HIGHEST, LOWEST, CalibrationMeasures, Reliability, fit_temperature
from patchword.objectives.metrics.class_measures import ClassMeasures, top_k_accuracy, top_k_of
from patchword.objectives.metrics.classification import Scores, score
from patchword.objectives.metrics.quality import Fitted, Quality
from patchword.objectives.metrics.thresholds import ThresholdCurve, at_threshold, roc_auc


def scored(logits: torch.Tensor, labels: torch.Tensor) -> Scores:
    names = tuple(f"class {number}" for number in range(logits.shape[1]))
    return score(lambda inputs: inputs, [(logits, labels, torch.empty(0))], names)


@pytest.fixture
def seven() -> Scores:
    """Seven classes, of which class 5 has no examples and class 6 is never predicted."""
    labels = torch.randint(0, 5, (400,))
    labels[:20] = 6
    logits = torch.randn(400, 7) + 1.5 * F.one_hot(labels, 7)
    logits[:, 6] -= 20
    return scored(logits, labels)


@pytest.fixture
def two() -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities of the positive class with ties, and an unbalanced truth."""
    positive = torch.rand(600) < 0.15
    return ((torch.randn(600) + positive).sigmoid() * 50).round() / 50, positive


def test_precision_recall_f1_and_their_means_are_scikit_learns(seven: Scores) -> None:
    measures, labels, best = ClassMeasures.of(seven.confusion()), seven.labels.numpy(), seven.predictions.numpy()
    expected = precision_recall_fscore_support(labels, best, labels=range(7), zero_division=0)
    for got, value in zip((measures.precision, measures.recall, measures.f1, measures.support), expected, strict=True):
        assert got.numpy() == pytest.approx(value, abs=1e-12)
    for mean in ("macro", "weighted"):
        expected = precision_recall_fscore_support(labels, best, average=mean, zero_division=0)
        got = [getattr(measures, f"{name}_{mean}") for name in ("precision", "recall", "f1")]
        assert got == pytest.approx(expected[:3], abs=1e-12)
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        assert measures.balanced_accuracy == pytest.approx(balanced_accuracy_score(labels, best), abs=1e-12)


def test_top_k_accuracy_is_scikit_learns(seven: Scores) -> None:
    assert seven.logits is not None
    for k in (1, 2, 5):
        expected = top_k_accuracy_score(seven.labels, seven.logits, k=k, labels=range(7))
        assert top_k_accuracy(seven.logits, seven.labels, k) == pytest.approx(expected, abs=1e-12)
    assert [top_k_of(classes) for classes in (2, 3, 5, 6, 1000)] == [None, 2, 2, 5, 5]
    assert "top5-accuracy" in Quality(seven).measures()


def test_the_reliability_of_two_classes_is_scikit_learns(two: tuple[torch.Tensor, torch.Tensor]) -> None:
    probability, positive = two
    probability = probability * 0.98 + 0.01  # no value on the edge of a bin, which scikit-learn puts into the next one
    found = Reliability.of(probability, positive)
    accuracy, confidence = calibration_curve(positive, probability, n_bins=15, strategy="uniform")
    used = found.counts > 0
    assert found.accuracy[used].numpy() == pytest.approx(accuracy)
    assert found.confidence[used].numpy() == pytest.approx(confidence)
    expected = np.average(np.abs(accuracy - confidence), weights=found.counts[used])
    assert found.ece == pytest.approx(float(expected))


def test_a_bin_of_the_calibration_error_includes_its_upper_edge() -> None:
    found = Reliability.of(torch.tensor([0.2, 1.0, 1 / 15], dtype=torch.float64), torch.tensor([True, True, False]))
    assert found.counts.nonzero()[:, 0].tolist() == [0, 2, 14]
    assert found.ece == pytest.approx((0.8 + 0 + 1 / 15) / 3)


def test_the_brier_score_is_scikit_learns(seven: Scores) -> None:
    found, probabilities = Quality(seven).calibration, seven.logits.double().softmax(-1)
    expected = brier_score_loss(seven.labels, probabilities, labels=range(7), scale_by_half=False)
    assert found is not None
    assert found.brier == pytest.approx(expected)
    assert found.nll == pytest.approx(seven.loss, rel=1e-6)


def test_the_temperature_minimizes_the_cross_entropy(seven: Scores) -> None:
    logits, labels = 3 * seven.logits[20:], seven.labels[20:]
    temperature = fit_temperature(logits, labels)
    assert temperature > 1  # three times too sure

    def loss(value: float) -> float:
        return float(F.cross_entropy(logits.double() / value, labels))

    assert loss(temperature) < min(loss(0.999 * temperature), loss(1.001 * temperature))
    assert fit_temperature(2 * logits, labels) == pytest.approx(2 * temperature)
    before, after = CalibrationMeasures.of(logits, labels), CalibrationMeasures.of(logits, labels, temperature)
    assert after.ece < before.ece
    assert after.nll < before.nll


def test_a_temperature_without_a_minimum_stays_in_its_range() -> None:
    labels = torch.arange(3)
    assert fit_temperature(F.one_hot(labels, 3).float(), labels) == pytest.approx(LOWEST)
    assert fit_temperature(-F.one_hot(labels, 3).float(), labels) == pytest.approx(HIGHEST)
    assert LOWEST <= fit_temperature(torch.zeros(3, 3), labels) <= HIGHEST


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        (4 * torch.eye(3), [0, 1, 2]),  # all correct: the lower the temperature, the lower the cross-entropy
        (90 * torch.eye(3), [0, 1, 2]),  # so sure that the slope of the cross-entropy is exactly 0
        (-torch.eye(3), [0, 1, 2]),  # all wrong: the higher the better
        (torch.zeros(3, 3), [0, 1, 2]),
        (torch.tensor([[2.0, 1.0]]), [0]),
    ],
)
def test_examples_that_do_not_determine_a_temperature_leave_the_probabilities(logits, labels) -> None:
    found = Fitted.of(scored(logits, torch.tensor(labels)))
    assert found is not None
    assert found.temperature == 1
    assert not found.has_temperature


def test_areas_and_curves_are_scikit_learns(two: tuple[torch.Tensor, torch.Tensor]) -> None:
    probability, positive = two
    curve = ThresholdCurve.of(probability, positive)
    assert roc_auc(probability, positive) == pytest.approx(roc_auc_score(positive, probability))
    assert curve.average_precision() == pytest.approx(average_precision_score(positive, probability))
    precision, recall, thresholds = precision_recall_curve(positive, probability)
    assert curve.thresholds.flip(0).numpy() == pytest.approx(thresholds)
    assert curve.precision.flip(0).numpy() == pytest.approx(precision[:-1])
    assert curve.recall.flip(0).numpy() == pytest.approx(recall[:-1])


def test_the_best_threshold_has_the_highest_f1(two: tuple[torch.Tensor, torch.Tensor]) -> None:
    probability, positive = two
    curve = ThresholdCurve.of(probability, positive)
    chosen = curve.best_f1_threshold()
    assert chosen is not None
    assert float(((probability.double() - chosen).abs()).min()) > 1e-3  # in the middle between two of them
    confusion = at_threshold(probability, positive, chosen)
    assert confusion.tolist() == confusion_matrix(positive, probability >= chosen).tolist()
    assert float(ClassMeasures.of(confusion).f1[1]) == pytest.approx(float(curve.f1.max()))


def test_areas_without_one_of_the_classes_are_none() -> None:
    probability, none = torch.rand(5), torch.zeros(5, dtype=torch.bool)
    assert roc_auc(probability, none) is None
    assert ThresholdCurve.of(probability, none).average_precision() is None
    assert ThresholdCurve.of(probability, none).best_f1_threshold() is None


def test_the_summary_is_plain_values_with_what_was_fitted_on_validation(seven: Scores) -> None:
    fitted = Fitted.of(seven)
    assert fitted is not None
    assert fitted.has_temperature
    assert fitted.threshold is None
    assert Fitted.from_json(json.loads(json.dumps(fitted.to_json()))) == fitted
    summary = json.loads(json.dumps(Quality(seven, fitted).summary()))
    assert [one["class"] for one in summary["per_class"]] == list(seven.classes)
    assert sum(one["support"] for one in summary["per_class"]) == 400
    assert summary["calibration"]["temperature"] == fitted.temperature
    assert summary["calibration"]["after"]["nll"] < summary["calibration"]["before"]["nll"] == pytest.approx(seven.loss)
    assert sum(summary["calibration"]["bins"]["counts"]) == 400
    assert "binary" not in summary


def test_two_classes_are_summed_up_by_threshold(two: tuple[torch.Tensor, torch.Tensor]) -> None:
    probability, positive = two
    logits = torch.stack([1 - probability, probability], 1).clamp(1e-6).log()
    scores = scored(logits, positive.long())
    fitted = Fitted.of(scores)
    assert fitted is not None
    summary = Quality(scores, fitted).summary()
    assert summary["roc-auc"] == pytest.approx(roc_auc_score(positive, probability))
    assert summary["binary"]["positive"] == "class 1"
    assert summary["binary"]["chosen"]["threshold"] == fitted.threshold
    assert [row["threshold"] for row in summary["binary"]["thresholds"]] == [tenth / 10 for tenth in range(1, 10)]
    half = summary["binary"]["thresholds"][4]
    assert half["f1"] <= summary["binary"]["chosen"]["f1"]


def test_predictions_without_logits_have_no_calibration() -> None:
    labels = torch.tensor([0, 1, 1])
    quality = Quality(Scores(0.5, labels, labels, torch.ones(3), ("a", "b")))
    assert set(quality.measures()) == {"balanced-accuracy", "f1-macro", "f1-weighted"}
    assert Fitted.of(quality.scores) is None
