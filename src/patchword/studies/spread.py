"""Statistics of a result over several seeds."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spread:
    """One measure over the seeds. deviation: sample standard deviation (n - 1); None for a single run."""

    mean: float
    deviation: float | None
    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation, statistics.median(values), min(values), max(values))

    def to_json(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "standard_deviation": self.deviation,
            "median": self.median,
            "lowest": self.lowest,
            "highest": self.highest,
        }
