"""A published table, read from tables.yaml. Nothing here waits for torch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from patchword.core.errors import UserError

FILE = Path(__file__).with_name("tables.yaml")
NOT_OURS, NOT_PRINTED = "-", "."
PUBLISHED_ONLY = "published only"


@dataclass(frozen=True)
class PublishedRow:
    """One row as printed. model: ours, with the fields that differ ("deit-base image=384"); empty if there is none."""

    name: str
    model: str
    figures: tuple[str, ...]

    @property
    def registry_name(self) -> str:
        """The name of our model without its fields."""
        return self.model.partition(" ")[0]


@dataclass(frozen=True)
class PublishedTable:
    """A table of a paper.

    of: what a row is. Rows of models name one of ours or are "published only"; rows of tasks and settings do not.
    columns: the titles, beginning with that of the row. pretrained: the set, if it is not ImageNet-1k alone.
    image: the size of the images, if no column has it.
    """

    name: str
    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[PublishedRow, ...]
    of: Literal["models", "settings", "tasks"] = "models"
    note: str = ""
    pretrained: str = ""
    image: int | None = None

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of all columns; rows of models have one for our model."""
        first, *others = self.columns
        return (first, "here", *others) if self.of == "models" else self.columns

    def lines(self) -> list[tuple[str, ...]]:
        """Return all rows as text, as `titles` names the columns; a figure that was not printed is empty."""
        return [(row.name, *self._ours(row), *(_shown(figure) for figure in row.figures)) for row in self.rows]

    def _ours(self, row: PublishedRow) -> tuple[str, ...]:
        return (row.model or PUBLISHED_ONLY,) if self.of == "models" else ()

    def figure(self, row: PublishedRow, column: str) -> float | None:
        """Return a figure as a number: "88.55 ± 0.04" is 88.55; None if the table has no such column or figure."""
        if column not in self.columns[1:]:
            return None
        return number(row.figures[self.columns.index(column) - 1])

    def matches(self, word: str) -> bool:
        """Whether the name, the title, the source, a column or a row has the word."""
        rows = (f"{row.name} {row.model}" for row in self.rows)
        return word.lower() in " ".join((self.name, self.title, self.source, *self.columns, *rows)).lower()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "note": self.note,
            "columns": list(self.titles),
            "rows": [list(line) for line in self.lines()],
        }


@dataclass(frozen=True)
class Difference:
    """A model with different figures for the same thing. figures: table, or "compare", -> percent."""

    model: str
    figures: Mapping[str, float]
    why: str


def number(figure: str) -> float | None:
    """Return the number that a printed figure begins with; None if it is a word."""
    try:
        return float(figure.split()[0])
    except ValueError:
        return None


@cache
def published_tables() -> dict[str, PublishedTable]:
    """Return all tables by name, in the order of the file."""
    return {table.name: table for table in map(_table, _content()["tables"])}


@cache
def differences() -> tuple[Difference, ...]:
    """Return the models for which two sources print different figures, each with the reason."""
    return tuple(Difference(one["model"], one["figures"], one["why"]) for one in _content()["differences"])


def chosen_tables(words: Iterable[str]) -> list[PublishedTable]:
    """Return the tables that match every word; one that is named exactly is the only one."""
    found, tables = list(words), published_tables()
    if len(found) == 1 and found[0] in tables:
        return [tables[found[0]]]
    matching = [table for table in tables.values() if all(table.matches(word) for word in found)]
    if not matching:
        raise UserError(f"no published table matches {' '.join(found)!r}", expected=", ".join(tables))
    return matching


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return content


def _table(entry: dict[str, Any]) -> PublishedTable:
    of = entry.get("of", "models")
    rows = tuple(_row(line, of == "models") for line in entry["rows"].splitlines())
    return PublishedTable(**{**entry, "columns": tuple(entry["columns"]), "rows": rows})


def _row(line: str, has_model: bool) -> PublishedRow:
    name, *rest = (cell.strip() for cell in line.split("|"))
    model = rest.pop(0) if has_model else ""
    return PublishedRow(name, "" if model == NOT_OURS else model, tuple(rest))


def _shown(figure: str) -> str:
    return "" if figure == NOT_PRINTED else figure
