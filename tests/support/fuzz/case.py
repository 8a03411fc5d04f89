"""One case of the fuzzer: a family and a seed, from which everything follows; and its outcome."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from patchword.core.errors import UserError

DOUBLE = 1e-7  # relative difference in float64, where large random weights leave room for rounding alone
SINGLE = 1e-2  # float32 against float64: sharp attention amplifies rounding, but not to the size of a mistake


@dataclass
class Outcome:
    """config: what was drawn. errors: relative differences and their tolerances, by comparison. refusal: its reason."""

    config: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, tuple[float, float]] = field(default_factory=dict)
    refusal: str = ""

    def compare(self, name: str, found: Tensor, expected: Tensor, tolerance: float = DOUBLE) -> None:
        """Keeps the largest difference, relative to the scale of the values; NaN is a failure."""
        if found.shape != expected.shape:
            raise AssertionError(f"{name}: shape {tuple(found.shape)} instead of {tuple(expected.shape)}")
        scale = expected.abs().max().clamp(min=1e-30)
        self.errors[name] = (float((found.double() - expected.double()).abs().max() / scale), tolerance)

    @property
    def worst(self) -> float:
        """The largest difference that is expected to be rounding in float64."""
        return max((error for error, tolerance in self.errors.values() if tolerance == DOUBLE), default=0.0)

    @property
    def failures(self) -> list[str]:
        return [
            f"{name}: {error:.1e} > {tolerance:.0e}"
            for name, (error, tolerance) in self.errors.items()
            if not error <= tolerance
        ]


Check = Callable[[random.Random, Outcome], None]


def run(name: str, check: Check, seed: int) -> Outcome:
    """Runs a case; a refusal by name ends it. The same name and seed give the same case."""
    draw, outcome = random.Random(f"{name} {seed}"), Outcome()
    torch.manual_seed(seed)
    try:
        with torch.no_grad():
            check(draw, outcome)
    except UserError as refused:
        outcome.refusal = str(refused).splitlines()[0]
    return outcome
