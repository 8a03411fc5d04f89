"""Weights of classes: those of scikit-learn, and exact in micro-batches and over several processes."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor

from patchword.data.image.batches import Batch
from patchword.objectives.class_weights import balanced_weights, imbalance_hint
from patchword.objectives.classification import Classification
from patchword.training.parallel.shared_batch import SharedBatch, with_global_counts

LABELS = torch.tensor([0] * 12 + [1] * 3 + [2])


def batch() -> Batch:
    return Batch(torch.randn(16, 3), LABELS, torch.arange(16))


def given(inputs: Tensor) -> Tensor:
    """A model whose logits are its inputs."""
    return inputs


def parts(whole: Batch) -> tuple[Batch, Batch]:
    first, second = (Batch(*(tensor[part] for tensor in whole)) for part in (slice(0, 9), slice(9, 16)))
    return first, second


def shared(own: Batch, other: Batch) -> SharedBatch:
    """Return the batch of two processes as one of them sees it; the order of the samples does not matter."""
    lengths = [len(own.labels), len(other.labels)]

    def padded(labels: Tensor) -> Tensor:
        return torch.nn.functional.pad(labels, (0, max(lengths) - len(labels)))

    gathers: list[Callable[[Tensor], list[Tensor]]] = [
        lambda counts: [counts, torch.tensor([other.weight, 0, lengths[1]])],
        lambda labels: [labels, padded(other.labels)],
    ]
    if own.labels.dim() > 1:
        return with_global_counts(own, gathers[0])
    calls = iter(gathers)  # the counts are gathered first
    return with_global_counts(own, lambda tensor: next(calls)(tensor))


def total(whole: Batch, objective: Classification) -> float:
    first, second = parts(whole)
    losses = objective(first, shared(first, second)).loss, objective(second, shared(second, first)).loss
    return float(sum(losses))


def test_balanced_weights_are_scikit_learns() -> None:
    found = balanced_weights(LABELS, 3)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=LABELS.numpy())
    assert found.numpy() == pytest.approx(expected)
    assert float(found[LABELS].mean()) == pytest.approx(1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_class_without_examples_has_no_weight(smoothing: float) -> None:
    """An unused output of the head changes neither the mean weight nor, by label smoothing, the loss."""
    weights = balanced_weights(LABELS, 4)
    assert weights.tolist() == pytest.approx([*balanced_weights(LABELS, 3).tolist(), 0.0])
    assert float(weights[LABELS].mean()) == pytest.approx(1)
    logits = torch.randn(16, 4)
    logits[:, 3] = -200.0  # the class is never predicted
    whole = Batch(logits, LABELS, torch.arange(16))
    smooth = torch.nn.functional.one_hot(LABELS, 4) * (1 - smoothing) + smoothing / 4
    terms = -(smooth * weights * logits.log_softmax(-1))[:, :3].sum() / weights[LABELS].sum()
    assert float(Classification(given, smoothing, weights)(whole, whole).loss) == pytest.approx(float(terms), rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_micro_batches_and_processes_add_up_to_the_loss_of_torch(smoothing: float) -> None:
    whole, weights = batch(), balanced_weights(LABELS, 3)
    objective = Classification(given, smoothing, weights)
    expected = float(torch.nn.CrossEntropyLoss(weights, label_smoothing=smoothing)(whole.inputs, whole.labels))
    for count in (1, 3, 5):
        added = sum(float(objective(piece, whole).loss) for piece in whole.split(count))
        assert added == pytest.approx(expected, rel=1e-6)
    assert total(whole, objective) == pytest.approx(expected, rel=1e-6)


def test_mixed_examples_are_divided_by_their_number() -> None:
    weights = balanced_weights(LABELS, 3)
    mixed = batch()._replace(labels=torch.rand(16, 3).softmax(-1))
    objective = Classification(given, 0.0, weights)
    expected = float(-(mixed.labels * weights * mixed.inputs.log_softmax(-1)).sum() / 16)
    assert float(objective(mixed, mixed).loss) == pytest.approx(expected, rel=1e-6)
    assert total(mixed, objective) == pytest.approx(expected, rel=1e-6)


def test_a_hint_names_the_largest_and_the_smallest_class() -> None:
    assert imbalance_hint({"cat": 100, "dog": 10, "unused": 0}, "images") == ""
    found = imbalance_hint({"cat": 101, "dog": 10}, "images")
    assert found.startswith("cat has 101 images, dog only 10: class_weights=balanced")
