"""A calculation as data, which all formats write: its chapters, its sums, and what is counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchword.analysis.cost.groups import What
from patchword.analysis.cost.line import Line
from patchword.analysis.cost.sizes import Size

TITLES: dict[What, str] = {"macs": "MACs", "parameters": "parameters"}


@dataclass(frozen=True)
class Chapter:
    """The steps of one part, or of one of several equal blocks. sizes: those that no chapter before it has."""

    title: str
    name: str
    times: int
    sizes: Sequence[Size]
    lines: Sequence[Line]
    sums: Mapping[What, str]

    @property
    def given(self) -> list[Size]:
        """The sizes that do not follow from others; those of the input first."""
        found = [size for size in self.sizes if size.symbol.derived is None]
        return sorted(found, key=lambda size: size.letter not in ("H_0", "W_0"))

    @property
    def derived(self) -> list[Size]:
        return [size for size in self.sizes if size.symbol.derived is not None]

    def heading(self) -> str:
        """Return e.g. "blocks 1 to 4, equal; one of them"."""
        return f"{self.title}, which are equal; the steps of one" if self.times > 1 else self.title


@dataclass(frozen=True)
class Calculation:
    """All that a written calculation has.

    input: the shape, the batch included. tables: parts with their MACs and parameters. sums: what is added in words
    (empty for the lines of a single part), and the numbers. kinds: MACs by kind of product.
    """

    title: str
    input: tuple[int, ...]
    chapters: Sequence[Chapter]
    tables: Sequence[Sequence[tuple[str, int, int]]]
    sums: Mapping[What, tuple[str, str]]
    kinds: Mapping[str, int]
    totals: Mapping[What, int]
    facts: Sequence[str]
    conventions: Sequence[str]

    @property
    def several(self) -> bool:
        """Whether it has several parts."""
        return len(self.chapters) > 1

    def input_words(self) -> str:
        """Return e.g. "one image of 1 x 28 x 28 (channels, rows, columns)"."""
        sides = " x ".join(str(side) for side in self.input[1:])
        match len(self.input):
            case 4:
                return f"one image of {sides} (channels, rows, columns)"
            case 2:
                return f"one text of {sides} tokens"
        return f"one text of {sides} (tokens, values of a token)"
