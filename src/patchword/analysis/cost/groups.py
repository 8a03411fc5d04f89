"""The parts of a count in order, equal blocks together, and their sums written out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from patchword.analysis.cost.line import Line

What = Literal["macs", "parameters"]
WHAT: tuple[What, ...] = ("macs", "parameters")


@dataclass(frozen=True)
class Term:
    """A term of a sum. times: how many equal parts it stands for; value: of one of them."""

    title: str
    times: int
    value: int


@dataclass(frozen=True)
class Group:
    """One part, or blocks of equal cost that follow each other. lines: of one of them."""

    parts: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def times(self) -> int:
        return len(self.parts)

    @property
    def name(self) -> str:
        """The names of the parts in the model, e.g. "stages.0.encoder.blocks.0 to 5"."""
        return self.parts[0] if self.times == 1 else f"{self.parts[0]} to {self.parts[-1].rpartition('.')[2]}"

    def is_before(self, other: "Group") -> bool:
        """Return whether another group has blocks of equal cost in the same encoder."""
        owners = {group.parts[0].rpartition(".")[0] for group in (self, other)}
        mine, theirs = ([(line.label, line.macs, line.parameters) for line in one.lines] for one in (self, other))
        return len(owners) == 1 and mine == theirs

    def total(self, what: What) -> int:
        """Return the MACs or the parameters of one of the parts."""
        return sum(term.value for term in self.terms(what))

    def terms(self, what: What) -> list[Term]:
        """Return the terms of the sum over the lines."""
        counts = [(line.label, getattr(line, what)) for line in self.lines]
        return [Term(label, 1, expression.value) for label, expression in counts if expression]


def joined(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Return the lines of a part; those of a layer that runs several times, with the same weights, become one."""
    found: dict[object, list[Line]] = {}
    for line in lines:
        found.setdefault((line.part, line.label, line.macs), []).append(line)
    return tuple(line for equal in found.values() for line in _together(*equal))


def _together(first: Line, *more: Line) -> list[Line]:
    if any(line.parameters for line in more):  # other weights
        return [first, *more]
    if not more or first.macs is None:
        return [first]
    times = 1 + len(more)
    return [replace(first, label=f"{first.label}, run {times} times", macs=times * first.macs)]


def written(terms: Sequence[Term]) -> str:
    """Return the sum, e.g. "50,176 + 4 x 2,777,600 + 640 = 11,161,216"."""
    terms = [term for term in terms if term.value]
    total = f"{sum(term.times * term.value for term in terms):,}"
    if not terms or (len(terms) == 1 and terms[0].times == 1):
        return total
    return f"{' + '.join(_times(term.times, f'{term.value:,}') for term in terms)} = {total}"


def in_words(terms: Sequence[Term]) -> str:
    """Return what is added, e.g. "stem + 4 x block + head"."""
    return " + ".join(_times(term.times, term.title) for term in terms if term.value)


def _times(times: int, text: str) -> str:
    return text if times == 1 else f"{times} x {text}"
