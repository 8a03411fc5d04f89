"""What an engine counts, for the metrics of a server."""

from bisect import bisect_left
from dataclasses import dataclass, field

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass
class Histogram:
    """Counts of values by upper bounds, with their sum. counts: per bound, and one more for larger values."""

    bounds: tuple[float, ...] = SECONDS
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass
class EngineStats:
    """Counts since the start. items: that were answered. size: tokens or pixels.

    queued: seconds of an input until its first batch. computed: seconds of a batch
    """

    batches: int = 0
    items: int = 0
    size: int = 0
    retried: int = 0
    late: int = 0
    cancelled: int = 0
    queued: Histogram = field(default_factory=Histogram)
    computed: Histogram = field(default_factory=Histogram)
