"""Weights of classes in a loss, for data in which some classes are rare."""

import torch
from torch import Tensor

IMBALANCED = 10  # the largest class has this many times the examples of the smallest: worth a hint


def balanced_weights(labels: Tensor, classes: int) -> Tensor:
    """Return n / (c * n_c) for each class with n_c of the n examples: (classes,). c: the classes that have examples.

    Their mean over the examples is 1. A class without examples has the weight 0: label smoothing gives it a share of
    every label, which would otherwise count more than all labels together.
    """
    counts = torch.bincount(labels, minlength=classes).float()
    return torch.where(counts > 0, len(labels) / (counts.count_nonzero() * counts.clamp(min=1)), 0.0)


def imbalance_hint(counts: dict[str, int], things: str) -> str:
    """Return a hint if the largest class is much larger than the smallest, else "". counts: of the training data."""
    present = {name: count for name, count in counts.items() if count}
    if not present:
        return ""
    large, small = max(present, key=present.__getitem__), min(present, key=present.__getitem__)
    if present[large] <= IMBALANCED * present[small]:
        return ""
    return (
        f"{large} has {present[large]:,} {things}, {small} only {present[small]:,}: "
        "class_weights=balanced gives every class the same weight in the loss, sampling=balanced shows every class "
        "equally often"
    )
