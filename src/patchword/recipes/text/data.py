"""Reads the files of a text recipe and splits training rows from validation rows."""

from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.randomness import order, uniform
from patchword.data.skipping import read_with, skipped_lines
from patchword.recipes.random_purposes import TEXTS_HELD_OUT
from patchword.recipes.text.tasks.spec import Labels, TextRows, TextTaskSpec


@dataclass(frozen=True)
class Parts(Generic[TextRows]):
    """The rows of each data split, and the label names, which come from the training file."""

    train: TextRows
    validation: TextRows
    labels: Labels


def read_parts(spec: TextTaskSpec[TextRows]) -> Parts[TextRows]:
    require_train(spec)
    train, _ = read_with(spec.recipe.skip_rule(), spec.read, "train")
    labels = spec.labels(train)  # of all rows, with those for validation
    validation = None if validation_fraction(spec) else read_with(spec.recipe.skip_rule(), spec.read, "validation")[0]
    return parted(spec, train, validation, labels)


def read_evaluated(spec: TextTaskSpec[TextRows], part: str) -> tuple[TextRows, list[str]]:
    """Return the rows of the test or validation split, and lines that name the rows that are skipped."""
    if part == "validation":
        return read_parts(spec).validation, []  # training has named them
    rows, skipped = read_with(spec.recipe.skip_rule(), spec.read, part)
    return rows, skipped_lines(skipped)


def require_train(spec: TextTaskSpec[TextRows]) -> None:
    if not spec.recipe.train:
        raise UserError("no training texts are given", expected="train=FILE", hint=spec.hint)


def validation_fraction(spec: TextTaskSpec[TextRows]) -> float | None:
    """Return the fraction of the training texts that is kept for validation; None if there is a file."""
    return None if spec.recipe.glue else spec.recipe.validation_fraction()


def parted(
    spec: TextTaskSpec[TextRows], train: TextRows, validation: TextRows | None, labels: Labels
) -> Parts[TextRows]:
    """Split the rows. validation: None takes some of the training rows"""
    fraction = validation_fraction(spec)
    if validation is not None or fraction is None:
        return Parts(train, train if validation is None else validation, labels)
    groups = spec.groups(train)
    aside = held_out(groups, spec.strata(train, groups), fraction)
    learned, validated = (spec.taken(train, chosen.nonzero()[:, 0].tolist()) for chosen in (~aside, aside))
    return Parts(learned, validated, labels)


def held_out(groups: Tensor, strata: Tensor, fraction: float) -> Tensor:
    """Return (rows,) True for a fraction of the groups of each stratum; the choice does not depend on the seed.

    groups: (rows,) rows with the same number stay together. strata: (rows,) the stratum of the row's group, from 0
    """
    draw = uniform(0, 0, groups, TEXTS_HELD_OUT)
    aside = torch.zeros(len(groups), dtype=torch.bool)
    members = strata.argsort(stable=True).split(torch.bincount(strata).tolist())
    drawn = [draw[rows].unique() for rows in members]  # sorted
    sizes = torch.tensor([len(values) for values in drawn])
    if len(sizes) > 1 and int(sizes.max()) == 1:  # every stratum has only one group
        return held_out(groups, torch.zeros_like(strata), fraction)
    for rows, values, count in zip(members, drawn, _counts(sizes, fraction).tolist(), strict=True):
        if count:
            aside[rows] = draw[rows] <= values[count - 1]
    if not aside.any():
        raise UserError(
            "there are too few texts to keep any for validation",
            expected="validation=FILE, or more texts",
            hint="questions over one article stay together" if len(groups) > 1 and len(groups.unique()) == 1 else "",
        )
    return aside


def _counts(sizes: Tensor, fraction: float) -> Tensor:
    """Return the number of groups per stratum: the fraction over all strata together, rounded per stratum, never all.

    The remainder after rounding down goes to the strata that lose most by rounding.
    """
    wanted = sizes.double() * fraction
    counts = wanted.floor().long()
    missing = max(1, round(int(sizes.sum()) * fraction)) - int(counts.sum())
    lost = (wanted - counts).masked_fill(counts + 1 >= sizes, -1.0)
    tried = order(0, 0, len(sizes))  # ties are broken at random
    first = tried[lost[tried].argsort(descending=True, stable=True)][:missing]
    counts[first] += (lost[first] >= 0).long()
    return counts
