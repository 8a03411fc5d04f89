"""Progress callbacks of long work."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # called with (done, total), in bytes of text or in images


def no_progress(done: int, total: int) -> None:
    """A progress callback that does nothing."""
