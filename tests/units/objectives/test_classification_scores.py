import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss

from patchword.objectives.metrics.classification import Scores, score

CLASSES = ("T-shirt/top", "Trouser", "[red]Bag", "unused")


@pytest.fixture
def answers():
    """Random scores of 500 examples over four classes, the last of which never occurs."""
    return torch.randn(500, 4), torch.randint(0, 3, (500,))


def scored(logits: torch.Tensor, labels: torch.Tensor) -> Scores:
    batches = ((part, truth, torch.empty(0)) for part, truth in zip(logits.split(64), labels.split(64), strict=True))
    return score(lambda inputs: inputs, batches, CLASSES)


def test_scores_are_scikit_learns(answers):
    logits, labels = answers
    scores = scored(logits, labels)
    best = logits.argmax(1)
    assert scores.accuracy == accuracy_score(labels, best)
    assert np.array_equal(scores.confusion().numpy(), confusion_matrix(labels, best, labels=range(4)))
    probabilities = logits.double().softmax(1).numpy()
    assert scores.loss == pytest.approx(log_loss(labels, probabilities, labels=range(4)), rel=1e-6)
    assert scores.confidence.numpy() == pytest.approx(probabilities.max(1), rel=1e-5)


def test_scores_do_not_depend_on_the_batches(answers):
    logits, labels = answers
    whole = score(lambda inputs: inputs, [(logits, labels, torch.empty(0))], CLASSES)
    parts = scored(logits, labels)
    assert torch.equal(whole.predictions, parts.predictions)
    assert whole.loss == pytest.approx(parts.loss, rel=1e-6)
    assert parts.loss == pytest.approx(float(F.cross_entropy(logits, labels)), rel=1e-6)


def test_a_classifier_in_half_precision_is_scored_in_single(answers):
    logits, labels = answers
    scores = scored(logits.bfloat16(), labels)
    assert scores.confidence.dtype == torch.float32
    assert scores.loss == pytest.approx(float(F.cross_entropy(logits.bfloat16().float(), labels)), rel=1e-6)


def test_lines_are_those_of_the_exercise():
    labels = torch.tensor([0] * 1000 + [1] * 3)
    predictions = torch.tensor([0] * 830 + [1] * 170 + [1, 0, 1])
    lines = Scores(0.45678, labels, predictions, torch.ones(1003), CLASSES[:3]).lines()
    assert lines == [
        "Test Loss: 0.4568",
        "Test Accuracy of Class 0 (T-shirt/top): 83.00% (830/1000)",
        "Test Accuracy of Class 1 (Trouser): 66.67% (2/3)",
        "Test Accuracy of Class 2 ([red]Bag): no examples",
        "Test Accuracy (Overall): 82.95% (832/1003)",
    ]


def test_mistakes_are_the_surest_first(answers):
    scores = scored(*answers)
    mistakes = scores.mistakes(20)
    assert len(mistakes) == 20
    assert (scores.predictions[mistakes] != scores.labels[mistakes]).all()
    confidence = scores.confidence[mistakes]
    assert torch.equal(confidence, confidence.sort(descending=True).values)
    wrong = scores.predictions != scores.labels
    assert float(confidence[-1]) == float(scores.confidence[wrong].sort(descending=True).values[19])
    assert len(scores.mistakes(10_000)) == int(wrong.sum())


def test_a_perfect_classifier_makes_no_mistakes():
    labels = torch.arange(3)
    scores = scored(F.one_hot(labels, 4).float(), labels)
    assert scores.accuracy == 1
    assert scores.mistakes(5).tolist() == []


def test_the_summary_is_plain_values(answers):
    import json

    scores = scored(*answers)
    summary = json.loads(json.dumps(scores.summary()))
    assert summary["examples"] == 500
    assert summary["accuracy"] == scores.accuracy
    assert sum(map(sum, summary["confusion"])) == 500
    assert summary["classes"] == list(CLASSES)
