import warnings

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics as reference

from patchword.core.errors import UserError
from patchword.objectives.metrics.metrics import (
    METRICS,
    accuracy,
    f1,
    f1_macro,
    f1_micro,
    glue_score,
    matthews,
    measure,
    multilabel_accuracy,
    multilabel_f1_macro,
    multilabel_f1_micro,
    pearson,
    ranks,
    spearman,
)

TIGHT = {"rel": 1e-12, "abs": 1e-12}
CLASSES = {
    "random": lambda draw: (draw.integers(0, 4, 200), draw.integers(0, 4, 200)),
    "two classes": lambda draw: (draw.integers(0, 2, 50), draw.integers(0, 2, 50)),
    "a gap": lambda draw: (draw.choice([0, 5], 30), draw.choice([2, 5], 30)),
    "one prediction": lambda draw: (np.ones(20, int), draw.integers(0, 3, 20)),
    "all right": lambda draw: (np.arange(9) % 3,) * 2,
    "all wrong": lambda draw: (np.arange(9) % 2, (np.arange(9) + 1) % 2),
    "one class": lambda draw: (np.zeros(5, int),) * 2,
    "one example": lambda draw: (np.array([1]), np.array([0])),
}


@pytest.mark.parametrize("case", CLASSES)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (accuracy, reference.accuracy_score),
        (f1_macro, lambda true, guess: reference.f1_score(true, guess, average="macro", zero_division=0)),
        (f1_micro, lambda true, guess: reference.f1_score(true, guess, average="micro", zero_division=0)),
        (f1, lambda true, guess: reference.f1_score(true == 1, guess == 1, zero_division=0)),
        (matthews, reference.matthews_corrcoef),
    ],
    ids=["accuracy", "macro", "micro", "binary", "matthews"],
)
def test_class_metrics_are_those_of_scikit_learn(case, ours, theirs):
    guess, true = CLASSES[case](np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that one class is not much of a confusion matrix
        expected = theirs(true, guess)
    assert ours(torch.from_numpy(guess), torch.from_numpy(true)) == pytest.approx(expected, **TIGHT)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_multilabel_metrics_are_those_of_scikit_learn(share):
    draw = np.random.default_rng(1)
    guess, true = draw.random((60, 5)) < 0.3, draw.random((60, 5)) < share
    guess[:, 4], true[:, 4] = False, False  # a label nobody has
    ours = [metric(torch.from_numpy(guess), torch.from_numpy(true)) for metric in MULTILABEL]
    assert ours == pytest.approx(
        [
            reference.f1_score(true, guess, average="micro", zero_division=0),
            reference.f1_score(true, guess, average="macro", zero_division=0),
            reference.accuracy_score(true, guess),
        ],
        **TIGHT,
    )


MULTILABEL = (multilabel_f1_micro, multilabel_f1_macro, multilabel_accuracy)


@pytest.mark.parametrize("steps", [None, 3, 20], ids=["no ties", "many ties", "some ties"])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e200])
def test_correlations_are_those_of_scipy(steps, scale):
    draw = np.random.default_rng(2)
    left = draw.normal(size=100)
    right = left + draw.normal(size=100)
    if steps:
        left, right = np.round(left * steps), np.round(right * steps / 2)
    ours = torch.from_numpy(left * scale), torch.from_numpy(right)
    assert spearman(*ours) == pytest.approx(stats.spearmanr(left, right).statistic, **TIGHT)
    assert pearson(*ours) == pytest.approx(stats.pearsonr(left, right).statistic, **TIGHT)
    assert np.array_equal(ranks(ours[0]).numpy(), stats.rankdata(left))


def test_halves_are_computed_in_doubles():
    draw = torch.Generator().manual_seed(0)
    left, right = torch.rand(2, 5000, generator=draw).bfloat16()
    expected = stats.pearsonr(left.double().numpy(), right.double().numpy()).statistic
    assert pearson(left, right) == pytest.approx(expected, **TIGHT)
    assert spearman(left, right) == pytest.approx(stats.spearmanr(left.double(), right.double()).statistic, **TIGHT)


@pytest.mark.parametrize("metric", [pearson, spearman])
@pytest.mark.parametrize(
    "guess", [[2.0, 2.0, 2.0], [0.1, 0.1, 0.1], [1.0, float("nan"), 2.0], [1.0, float("inf"), 2.0]]
)
def test_a_side_without_finite_variation_has_no_correlation(metric, guess):
    assert metric(torch.tensor(guess), torch.tensor([1.0, 2.0, 3.0])) == 0.0
    assert metric(torch.tensor([1.0, 2.0, 3.0]), torch.tensor(guess)) == 0.0


@pytest.mark.parametrize("name", [name for name in METRICS if not name.startswith("multilabel")])
def test_no_examples_score_nothing(name):
    assert METRICS[name](torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long)) == 0.0


@pytest.mark.parametrize("name", METRICS)
def test_shapes_that_would_spread_over_each_other_are_refused(name):
    with pytest.raises(ValueError, match="differ in shape"):
        METRICS[name](torch.tensor([0, 1]), torch.tensor([[0], [1]]))


def test_several_metrics_are_measured_at_once():
    found = measure(("accuracy", "f1"), torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 0, 0]))
    assert found == {"accuracy": 0.75, "f1": pytest.approx(2 / 3)}


def test_the_glue_score_averages_within_a_task_first():
    results = {"cola": {"matthews": 0.5}, "mrpc": {"accuracy": 0.8, "f1": 0.9}, "wnli": {"accuracy": 0.25}}
    assert glue_score(results) == pytest.approx((0.5 + 0.85) / 2)
    assert glue_score(results, leave_out=()) == pytest.approx((0.5 + 0.85 + 0.25) / 3)
    with pytest.raises(UserError, match="the GLUE score needs results"):
        glue_score({"wnli": {"accuracy": 0.5}})
