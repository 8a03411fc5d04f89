"""Splits of a data set: given by its files, or a fixed fraction of each class is held out."""

from collections.abc import Iterable, Sequence
from typing import Literal
from zlib import crc32

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


def in_split_by_name(
    where: str, part: Split, given: Sequence[Split | None], names: Sequence[str], validation: float
) -> Tensor:
    """Return (images,) True for the images of a split. Which images are held out depends on their names alone.

    given: the splits that the files define. validation: fraction of the training images that is held out if the files
    have no validation split.
    """
    labels = torch.zeros(len(given), dtype=torch.long)
    keys = torch.tensor([crc32(name.encode()) for name in names])
    if part == "test" or has_validation(given):
        return in_split(where, part, given, labels, keys)
    train = in_split(where, "train", given, labels, keys).nonzero()[:, 0]
    aside = held_out(labels[train], keys[train], validation)
    kept = torch.zeros(len(given), dtype=torch.bool)
    kept[train] = aside if part == "validation" else ~aside
    return kept


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
