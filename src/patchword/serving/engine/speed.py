"""How fast a model computes, to translate a queue of tokens or pixels into seconds."""

_NEWEST, _FASTER = 0.1, 0.5  # the weight of the newest batch, and of one that was faster than expected


class Speed:
    """Tokens or pixels per second: measured at the start, then followed.

    A slow batch counts only if it is at least half full: a single short text spends its time on overhead, and would
    make the queue look longer than it is. A fast one always counts, and more: it shows what the machine can do, also
    after a measurement beside other work.
    """

    def __init__(self, per_second: float, budget: int) -> None:
        self.per_second, self._least = per_second, budget / 2

    def seconds(self, size: int) -> float:
        """Return how long so many tokens or pixels take."""
        return size / self.per_second

    def observe(self, size: int, seconds: float) -> None:
        """Take a computed batch into account."""
        if seconds <= 0:
            return
        difference = size / seconds - self.per_second
        if difference > 0:
            self.per_second += _FASTER * difference
        elif size >= self._least:
            self.per_second += _NEWEST * difference
