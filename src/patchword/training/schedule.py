"""The learning rate over the steps of a run."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class Warmup(ABC):
    """Linear warmup over `warmup` steps, then a decay to `floor` times the peak; subclasses give its shape."""

    peak: float
    total: int
    warmup: int = 0
    floor: float = 0.0

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, self.total - self.warmup))
        return self.peak * (self.floor + (1 - self.floor) * self.remaining(done))

    @abstractmethod
    def remaining(self, done: float) -> float:
        """Return the decay, from 1 at its start (done=0) to 0 at its end (done=1)."""


class WarmupLinear(Warmup):
    """Linear decay, as BERT's."""

    def remaining(self, done: float) -> float:
        return 1 - done


@dataclass(frozen=True)
class InverseRoot:
    """The Transformer's schedule: width^-0.5 * min(step^-0.5, step * warmup^-1.5), steps from 1.

    It rises linearly to (width * warmup)^-0.5, then falls with the inverse square root of the step, without an end
    (Vaswani et al., 2017, equation 3).

    factor: multiplies the learning rate.
    """

    width: int
    warmup: int = 4000
    factor: float = 1.0

    def __call__(self, step: int) -> float:
        count = step + 1
        rising = count * max(1, self.warmup) ** -1.5
        return float(self.factor * self.width**-0.5 * min(count**-0.5, rising))


def inverse_root(peak: float, total: int, warmup: int = 0, floor: float = 0.0) -> InverseRoot:
    """Return the schedule with a given peak. It has no end, so `total` and `floor` are ignored."""
    return InverseRoot(1, max(1, warmup), peak * max(1, warmup) ** 0.5)


class WarmupSteps(Warmup):
    """A tenth of the peak after 3/4 of the run, a hundredth after 11/12: the 3x schedule of detectors."""

    def remaining(self, done: float) -> float:
        return 1.0 if done < 3 / 4 else 0.1 if done < 11 / 12 else 0.01


class WarmupCosine(Warmup):
    """Cosine decay."""

    def remaining(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2
