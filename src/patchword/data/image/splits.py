"""Splits of a data set: given by its files, or a fixed fraction of each class is held out."""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.randomness import uniform

Split = Literal["train", "validation", "test"]
Part = Literal["train", "validation", "test", "all"]  # what is read of a data set: a split, or every sample
_TEST_SHARE = 0.1  # held out from a data set without a test split


def has_validation(given: Iterable[Split | None]) -> bool:
    """True if there are both a validation and a test split; a single one of them is used as test."""
    return {"validation", "test"} <= set(given)


def has_test(given: Iterable[Split | None]) -> bool:
    """True if the data set has a test split of its own, or a validation split, which is used as test."""
    return not {"validation", "test"}.isdisjoint(given)


def in_split(name: str, part: Part, given: Sequence[Split | None], labels: Tensor, keys: Tensor) -> Tensor:
    """Return (samples,) True for the samples of a split.

    Without a validation and test split, some are held out as test.
    """
    if part == "all":
        return torch.ones(len(labels), dtype=torch.bool)
    splits = [part or "train" for part in given]
    last: Split = "test" if "test" in splits else "validation"
    if last in splits:
        in_test = torch.tensor([part == last for part in splits])
    else:
        in_test = held_out(labels, keys, _TEST_SHARE, purpose=11)
    own = has_validation(given)
    in_validation = torch.tensor([own and part == "validation" for part in splits])
    in_train = ~in_test & ~in_validation
    for title, chosen in (("training", in_train), ("test", in_test)):
        if not chosen.any():
            raise UserError(
                f"{name} has no {title} images (train and test splits are both needed)",
                hint="give each class more images, or set the split of each image",
            )
    return {"train": in_train, "validation": in_validation, "test": in_test}[part]


def held_out(labels: Tensor, keys: Tensor, fraction: float, purpose: int = 12) -> Tensor:
    """Return (samples,) True for a fraction of each class; independent of the seed of a run."""
    if fraction <= 0 or not len(labels):
        return torch.zeros(len(labels), dtype=torch.bool)
    drawn = uniform(0, 0, keys, purpose).argsort(stable=True)
    ordered = drawn[labels[drawn].argsort(stable=True)]  # sorted by class, then by draw
    members = labels.long().bincount()
    counts = (members.double() * fraction).round().long().clamp(min=1).minimum(members - 1)
    own = labels[ordered].long()
    place = torch.arange(len(labels)) - (members.cumsum(0) - members)[own]
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    chosen[ordered[place < counts[own]]] = True
    return chosen
