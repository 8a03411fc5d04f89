"""Long work that tells how far it is."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # so much is done, of so much in all: bytes of text, pictures


def nothing(done: int, total: int) -> None:
    """Progress that nobody looks at."""
