"""Metrics of fine-tuned models, computed in float64, as fractions of 1.

An undefined value is 0, never NaN: F1 without positive labels and predictions, Matthews or a correlation if one side is
constant or has a non-finite value, and every metric of an empty set. scikit-learn also returns 0 for F1 and Matthews;
scipy returns NaN for the correlations.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import torch
from torch import Tensor

from patchword.core.errors import UserError

Metric = Callable[[Tensor, Tensor], float]  # predictions (count,), labels (count,)


def accuracy(predictions: Tensor, labels: Tensor) -> float:
    _check(predictions, labels)
    return float((predictions == labels).double().mean()) if len(labels) else 0.0


def f1(predictions: Tensor, labels: Tensor, positive: int = 1) -> float:
    """Return the F1 of one class, which GLUE reports for MRPC and QQP."""
    _check(predictions, labels)
    return float(_f1(*_counts((predictions == positive)[:, None], (labels == positive)[:, None])).sum())


def f1_macro(predictions: Tensor, labels: Tensor) -> float:
    """Return the mean F1 over the classes that occur among the labels or the predictions."""
    matrix = confusion(predictions, labels).double()
    right, predicted, true = matrix.diag(), matrix.sum(0), matrix.sum(1)
    return _mean(_f1(right, predicted, true)[predicted + true > 0])


def f1_micro(predictions: Tensor, labels: Tensor) -> float:
    """Return the F1 over all classes together, which equals the accuracy for one class per example."""
    return accuracy(predictions, labels)


def matthews(predictions: Tensor, labels: Tensor) -> float:
    """Return Matthews' correlation coefficient (Gorodkin, 2004, for more than two classes)."""
    matrix = confusion(predictions, labels).double()
    count, right, predicted, true = matrix.sum(), matrix.diag().sum(), matrix.sum(0), matrix.sum(1)
    spread = (count**2 - predicted @ predicted) * (count**2 - true @ true)
    return float((right * count - predicted @ true) / spread.sqrt()) if spread > 0 else 0.0


def pearson(predictions: Tensor, labels: Tensor) -> float:
    _check(predictions, labels)
    left, right = _centred(predictions.double()), _centred(labels.double())
    if left is None or right is None:
        return 0.0
    return float((left @ right / (left.norm() * right.norm())).clamp(-1, 1))


def spearman(predictions: Tensor, labels: Tensor) -> float:
    """Return Spearman's rank correlation: Pearson's correlation of the ranks."""
    if not (predictions.isfinite().all() and labels.isfinite().all()):
        return 0.0
    return pearson(ranks(predictions), ranks(labels))


def ranks(values: Tensor) -> Tensor:
    """Return the ranks, (count,) float64, counted from 1; equal values get the mean of their ranks."""
    _, group, sizes = values.double().unique(return_inverse=True, return_counts=True)
    shared: Tensor = sizes.cumsum(0) - (sizes.double() - 1) / 2
    return shared[group]


def confusion(predictions: Tensor, labels: Tensor) -> Tensor:
    """Return the confusion matrix, (classes, classes) counts: rows are true classes, columns predictions."""
    _check(predictions, labels)
    size = int(torch.cat([predictions, labels]).max()) + 1 if len(labels) else 0
    return torch.bincount(labels.long() * size + predictions.long(), minlength=size * size).view(size, size)


def multilabel_f1_micro(predictions: Tensor, labels: Tensor) -> float:
    """Return the F1 over all examples and labels together; arguments are (count, labels) bool."""
    _check(predictions, labels)
    right, predicted, true = (counts.sum() for counts in _counts(predictions.bool(), labels.bool()))
    return float(_f1(right, predicted, true))


def multilabel_f1_macro(predictions: Tensor, labels: Tensor) -> float:
    """Return the mean F1 over the labels; arguments are (count, labels) bool.

    A label that never occurs and is never predicted counts as 0.
    """
    _check(predictions, labels)
    return _mean(_f1(*_counts(predictions.bool(), labels.bool())))


def multilabel_accuracy(predictions: Tensor, labels: Tensor) -> float:
    """Return the fraction of examples with all labels correct; arguments are (count, labels) bool."""
    _check(predictions, labels)
    return _mean((predictions.bool() == labels.bool()).all(-1).double())


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "f1": f1,
    "f1-macro": f1_macro,
    "f1-micro": f1_micro,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "multilabel-f1-micro": multilabel_f1_micro,
    "multilabel-f1-macro": multilabel_f1_macro,
    "multilabel-accuracy": multilabel_accuracy,
}


def measure(names: Iterable[str], predictions: Tensor, labels: Tensor) -> dict[str, float]:
    """Compute several metrics of METRICS by name."""
    return {name: METRICS[name](predictions, labels) for name in names}


def glue_score(results: Mapping[str, Mapping[str, float]], leave_out: Collection[str] = ("wnli",)) -> float:
    """Return the GLUE score: the mean over tasks, where a task with several metrics counts as their mean.

    results: task -> metric -> value; MNLI's is that of the matched part. leave_out: BERT leaves out WNLI, because its
    development part contradicts its training part; the leaderboard does not: leave_out=().
    """
    tasks = [sum(values.values()) / len(values) for task, values in results.items() if task not in leave_out]
    if not tasks:
        raise UserError("the GLUE score needs results", got=list(results), expected="the results of at least one task")
    return sum(tasks) / len(tasks)


def _check(predictions: Tensor, labels: Tensor) -> None:
    if predictions.shape != labels.shape:  # otherwise they would be broadcast
        raise ValueError(f"predictions {tuple(predictions.shape)} and labels {tuple(labels.shape)} differ in shape")


def _counts(predictions: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(count, labels) bool -> the numbers of correct, predicted and true examples per label."""
    return (predictions & labels).sum(0).double(), predictions.sum(0).double(), labels.sum(0).double()


def _f1(right: Tensor, predicted: Tensor, true: Tensor) -> Tensor:
    return 2 * right / (predicted + true).clamp_min(1)


def _mean(values: Tensor) -> float:
    return float(values.mean()) if values.numel() else 0.0


def _centred(values: Tensor) -> Tensor | None:
    """Scale against overflow and subtract the mean; None if the values are constant or not all finite."""
    if not len(values) or not values.isfinite().all() or bool((values == values[0]).all()):
        return None
    scaled = values / values.abs().max()
    return scaled - scaled.mean()
