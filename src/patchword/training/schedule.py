"""The learning rate over the steps of a run."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class WarmupLinear:
    """Rises linearly over `warmup` steps, then falls linearly to `floor` of its peak, as BERT's rate does."""

    peak: float
    total: int
    warmup: int = 0
    floor: float = 0.0

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, self.total - self.warmup))
        return self.peak * (1 - (1 - self.floor) * done)


@dataclass(frozen=True)
class WarmupCosine:
    """Rises linearly over `warmup` steps, then falls along half a cosine to `floor` of its peak."""

    peak: float
    total: int
    warmup: int = 0
    floor: float = 0.0

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, self.total - self.warmup))
        return self.peak * (self.floor + (1 - self.floor) * (1 + math.cos(math.pi * done)) / 2)
