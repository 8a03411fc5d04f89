"""The content of evaluation.json as typed fields, for every recipe kind."""

import math

import pytest

from patchword.api.results import result_of


@pytest.mark.parametrize(
    ("kind", "summary", "metric", "score", "part"),
    [
        ("images", {"loss": 0.5, "accuracy": 0.75, "examples": 4, "classes": ["a", "b"]}, "accuracy", 0.75, "test"),
        ("text", {"loss": 0.5, "f1": 0.25, "metric": "f1", "part": "validation"}, "f1", 0.25, "validation"),
        (
            "pretraining",
            {"loss": 2.0, "accuracy": 0.5, "metric": "accuracy", "part": "held out"},
            "accuracy",
            0.5,
            "held out",
        ),
        (
            "translation",
            {"bleu": 30.5, "beam": 4, "signature": "x", "metric": "bleu", "part": "test"},
            "bleu",
            30.5,
            "test",
        ),
    ],
)
def test_the_main_score_and_all_scores(kind, summary, metric, score, part):
    found = result_of(kind, summary)
    assert (found.kind, found.metric, found.score, found.part) == (kind, metric, score, part)
    assert dict(found.scores) == {name: value for name, value in summary.items() if isinstance(value, float)}
    assert found.loss == summary.get("loss")


def test_a_missing_score_is_nan_and_a_class_without_examples_has_no_accuracy():
    found = result_of("text", {"metric": "f1", "classes": ["a", "b"], "confusion": [[3, 1], [0, 0]]})
    assert math.isnan(found.score)
    assert found.class_accuracy == {"a": 0.75}
    assert found.loss is None
