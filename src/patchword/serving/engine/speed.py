"""How fast a model computes, to translate a queue of tokens or pixels into seconds."""

_NEWEST = 0.1  # the weight of the newest batch


class Speed:
    """Tokens or pixels per second: measured at the start, then followed.

    Only batches that are at least half full count: a single short text spends its time on overhead, and would make the
    queue look longer than it is.
    """

    def __init__(self, per_second: float, budget: int) -> None:
        self.per_second, self._least = per_second, budget / 2

    def seconds(self, size: int) -> float:
        """Return how long so many tokens or pixels take."""
        return size / self.per_second

    def observe(self, size: int, seconds: float) -> None:
        """Take a computed batch into account."""
        if size >= self._least and seconds > 0:
            self.per_second += _NEWEST * (size / seconds - self.per_second)
