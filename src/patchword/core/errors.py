"""What a user sees when something they gave us cannot be used."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Self


class UserError(ValueError):
    """A mistake of the user's: the thing, what was expected, what came, and what to do about it.

    The command line prints it in one or two lines and exits with code 2; Python users get a ValueError.
    """

    def __init__(self, what: str, *, expected: object = None, got: object = None, hint: str = "") -> None:
        self.what, self.expected, self.got, self.hint = what, expected, got, hint
        parts = [f"expected {expected}" if expected is not None else "", f"got {got}" if got is not None else ""]
        detail = ", ".join(part for part in parts if part)
        message = f"{what}: {detail}" if detail else what
        super().__init__(f"{message}\n{hint}" if hint else message)


class RecoverableError(UserError):
    """Something outside of a run went wrong, such as a full disk: once it is mended, the run can go on."""

    def with_hint(self, hint: str) -> Self:
        """the same, with one thing more to do about it"""
        told = "\n".join(part for part in (self.hint, hint) if part)
        return type(self)(self.what, expected=self.expected, got=self.got, hint=told)


class PeerLostError(RuntimeError):
    """Another process of the run is gone, and this one cannot go on without it. Why, the other one has told."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or all of them when they are few."""
    choices = sorted(known)
    close = get_close_matches(word, choices, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(choice) for choice in close) + "?"
    if len(choices) <= 20:
        return "known: " + ", ".join(choices)
    return f"{len(choices)} are known, from {choices[0]!r} to {choices[-1]!r}"
