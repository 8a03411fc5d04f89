"""The parts of a set: those its files say, or some of each class held out, always the same ones."""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.randomness import uniform

Split = Literal["train", "validation", "test"]
_TEST_SHARE = 0.1  # of a set that brings no test part of its own


def brings_validation(given: Iterable[Split | None]) -> bool:
    """Whether a set has a validation part beside its test part; a lone one serves as test."""
    return {"validation", "test"} <= set(given)


def in_split(name: str, part: Split, given: Sequence[Split | None], labels: Tensor, keys: Tensor) -> Tensor:
    """True for the samples of a part. A lone validation part serves as test; without either, some are held out."""
    told = [part or "train" for part in given]
    last: Split = "test" if "test" in told else "validation"
    if last in told:
        in_test = torch.tensor([part == last for part in told])
    else:
        in_test = held_out(labels, keys, _TEST_SHARE, purpose=11)
    own = brings_validation(given)
    in_validation = torch.tensor([own and part == "validation" for part in told])
    in_train = ~in_test & ~in_validation
    for title, chosen in (("training", in_train), ("test", in_test)):
        if not chosen.any():
            raise UserError(
                f"{name} has no {title} pictures (train and test parts are both needed)",
                hint="give each class more pictures, or say which part each belongs to",
            )
    return {"train": in_train, "validation": in_validation, "test": in_test}[part]


def held_out(labels: Tensor, keys: Tensor, share: float, purpose: int = 12) -> Tensor:
    """True for `share` of each class, always the same samples whatever the seed of a run"""
    if share <= 0 or not len(labels):
        return torch.zeros(len(labels), dtype=torch.bool)
    drawn = uniform(0, 0, keys, purpose).argsort(stable=True)
    ordered = drawn[labels[drawn].argsort(stable=True)]  # class by class, as they were drawn
    members = labels.long().bincount()
    counts = (members.double() * share).round().long().clamp(min=1).minimum(members - 1)
    own = labels[ordered].long()
    place = torch.arange(len(labels)) - (members.cumsum(0) - members)[own]
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    chosen[ordered[place < counts[own]]] = True
    return chosen
