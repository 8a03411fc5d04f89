"""Rows of an input, in shards: the unit of work that is computed, written and counted as a whole."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from patchword.core.errors import UserError
from patchword.recipes.text.inference.input import TextInput

Wanted = Callable[[int], bool]  # whether a shard is still to be computed, by its number


@dataclass(frozen=True)
class Row:
    """One row. place: where it is, as records repeat it: file and line, file and row, or path.

    given: what the model reads, or why it cannot be read. others: the cells that the model does not read.
    """

    place: Mapping[str, Any]
    given: TextInput | Path
    others: Mapping[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> UserError | None:
        return self.given.error if isinstance(self.given, TextInput) else None


@dataclass(frozen=True)
class Shard:
    """Consecutive rows. start: the number of the first, from 0. columns: an Arrow table of the cells that the model
    does not read, if the input has such types; the others of its rows are then empty."""

    number: int
    start: int
    rows: Sequence[Row]
    columns: Any = None


class Source(Protocol):
    """An input that is read from its beginning, a shard at a time."""

    def check(self) -> None:
        """Raise an error for what concerns all rows, such as a missing column."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return what tells this input from another, or from itself after a change."""
        ...

    def shards(self, size: int, wanted: Wanted) -> Iterator[Shard]:
        """Yield the wanted shards in order; `rows` and `fraction` follow."""
        ...

    @property
    def rows(self) -> int:
        """The number of rows read so far; after the last shard, of all rows."""
        ...

    @property
    def fraction(self) -> float:
        """Which part of the input has been read, from 0 to 1."""
        ...


def in_shards(rows: Iterable[Row], size: int, wanted: Wanted) -> Iterator[Shard]:
    """Group rows. Those of shards that are not wanted are read over."""
    group: list[Row] = []
    count = 0
    for row in rows:
        number, count = count // size, count + 1
        if wanted(number):
            group.append(row)
        if group and count % size == 0:
            yield Shard(number, number * size, group)
            group = []
    if group:
        number = (count - 1) // size
        yield Shard(number, number * size, group)
