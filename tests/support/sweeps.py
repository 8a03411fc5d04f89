"""Splits a sweep: a part that has every kind in it runs by default, the rest under the slow marker."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest


def sweep(cases: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """The cases as parameters; those that are not in `kept` are slow."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if case in kept else pytest.mark.slow)
        for case in cases
    ]


def covering(pairs: Sequence[tuple[str, str]], each: int = 1) -> set[tuple[str, str]]:
    """A few of the pairs that hold each first and each second value: all pairs of the first name, and `each` pairs of
    every other name, with other partners each time."""
    names = list(dict.fromkeys(name for name, _ in pairs))
    found = {pair for pair in pairs if pair[0] == names[0]}
    for turn, name in enumerate(names):
        own = [pair for pair in pairs if pair[0] == name]
        found |= {own[(turn + step * len(own) // each) % len(own)] for step in range(each)}
    return found
