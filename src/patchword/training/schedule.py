"""The learning rate over the steps of a run."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class Warmup(ABC):
    """Rises linearly over `warmup` steps, then falls to `floor` of its peak, as `left` says."""

    peak: float
    total: int
    warmup: int = 0
    floor: float = 0.0

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, self.total - self.warmup))
        return self.peak * (self.floor + (1 - self.floor) * self.left(done))

    @abstractmethod
    def left(self, done: float) -> float:
        """from 1 at the start of the fall to 0 at its end"""


class WarmupLinear(Warmup):
    """Falls linearly, as BERT's rate does."""

    def left(self, done: float) -> float:
        return 1 - done


@dataclass(frozen=True)
class InverseRoot:
    """width^-0.5 * min(step^-0.5, step * warmup^-1.5), steps from 1 (Vaswani et al., 2017, equation 3).

    Rises linearly to (width * warmup)^-0.5, then falls with the root of the steps, without an end. factor: times that.
    """

    width: int
    warmup: int = 4000
    factor: float = 1.0

    def __call__(self, step: int) -> float:
        count = step + 1
        rising = count * max(1, self.warmup) ** -1.5
        return float(self.factor * self.width**-0.5 * min(count**-0.5, rising))


def inverse_root(peak: float, total: int, warmup: int = 0, floor: float = 0.0) -> InverseRoot:
    """That of a given peak. It has no end, and so neither `total` nor `floor` matters."""
    return InverseRoot(1, max(1, warmup), peak * max(1, warmup) ** 0.5)


class WarmupCosine(Warmup):
    """Falls along half a cosine."""

    def left(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2
