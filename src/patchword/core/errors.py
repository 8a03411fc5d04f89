"""Errors that users see, with what was expected, what was given and a hint."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Self


class UserError(ValueError):
    """A mistake in the user's input: what is wrong, what was expected, what was given, and how to fix it.

    The command line prints it in one or two lines and exits with code 2; Python users get a ValueError.
    """

    def __init__(self, what: str, *, expected: object = None, got: object = None, hint: str = "") -> None:
        self.what, self.expected, self.got, self.hint = what, expected, got, hint
        parts = [f"expected {expected}" if expected is not None else "", f"got {got}" if got is not None else ""]
        detail = ", ".join(part for part in parts if part)
        message = f"{what}: {detail}" if detail else what
        super().__init__(f"{message}\n{hint}" if hint else message)


class RecoverableError(UserError):
    """A problem outside the run, such as a full disk: after it is fixed, the run can resume."""

    def with_hint(self, hint: str) -> Self:
        """Return a copy with one more line in the hint."""
        hints = "\n".join(part for part in (self.hint, hint) if part)
        return type(self)(self.what, expected=self.expected, got=self.got, hint=hints)


class AmbiguityWarning(UserWarning):
    """A value that the user's files do not state was chosen. The command line prints it as a note."""


class UnsealedWarning(UserWarning):
    """A run has no seal, so that a changed file cannot be found. The command line prints it as a note."""


class PeerLostError(RuntimeError):
    """A peer process failed and this one cannot continue without it; the peer's own message gives the reason."""


def first_few(lines: Sequence[str], shown: int = 5) -> list[str]:
    """Return the first lines of a long list, and how many more there are."""
    return list(lines) if len(lines) <= shown + 1 else [*lines[:shown], f"... and {len(lines) - shown:,} more"]


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known words, or with all of them if there are few."""
    choices = sorted(known)
    close = get_close_matches(word, choices, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(choice) for choice in close) + "?"
    if len(choices) <= 20:
        return "known: " + ", ".join(choices)
    return f"{len(choices)} are known, from {choices[0]!r} to {choices[-1]!r}"
