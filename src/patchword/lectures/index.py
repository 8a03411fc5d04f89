"""The index of the lectures, read from lectures.yaml. Nothing here waits for torch."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from patchword.analysis.published.tables.table import PublishedTable, published_tables
from patchword.core.errors import UserError

FILE = Path(__file__).with_name("lectures.yaml")
COUNTED = "counted"  # in place of a result file: numbers that patchword counts
State = Literal["runs", "published only", "not yet"]


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that a lecture shows. lectures.yaml describes the fields.

    small: the small form of the command, empty if there is none. result: files of the repository, or COUNTED.
    again: whether an earlier deck has it, too.
    """

    id: str
    item: str
    command: tuple[str, ...] = ()
    small: tuple[str, ...] = ()
    table: str = ""
    published: str = ""
    source: str = ""
    ours: str = ""
    result: tuple[str, ...] = ()
    state: State = "runs"
    why: str = ""
    note: str = ""
    again: bool = False

    def __post_init__(self) -> None:
        for wrong, what in (
            (self.state == "runs" and not self.command, "a command, or a state"),
            (self.state != "runs" and not self.why, "why it does not run"),
            (bool(self.published) and not self.source, "the source of the published figures"),
            (bool(self.ours) != bool(self.result), "our figures and the file that holds them, or neither"),
        ):
            if wrong:
                raise UserError(f"the item {self.id!r} of {FILE.name} is not complete", expected=what)

    def published_table(self) -> PublishedTable | None:
        """Return the table that has the published figures, if there is one."""
        return published_tables()[self.table] if self.table else None

    def where(self) -> str:
        """Return the source of the published figures; empty if there are none."""
        table = self.published_table()
        return self.source or (table.source if table else "")

    def matches(self, word: str) -> bool:
        """Whether any text of the item has the word."""
        texts = (self.id, self.item, *self.command, self.table, self.published, self.where(), self.ours, self.note)
        return word.lower() in " ".join(texts).lower()


@dataclass(frozen=True)
class Section:
    """A part of a deck."""

    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Deck:
    """One deck of slides; number counts from 1."""

    number: int
    title: str
    sections: tuple[Section, ...]

    def items(self) -> Iterator[Item]:
        for section in self.sections:
            yield from section.items


@cache
def decks() -> tuple[Deck, ...]:
    """Return all decks in the order of the lectures."""
    content = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    known: dict[str, Item] = {}
    found = []
    for number, deck in enumerate(content["decks"], 1):
        sections = [
            Section(section["title"], tuple(_item(entry, known) for entry in section["items"]))
            for section in deck["sections"]
        ]
        found.append(Deck(number, deck["title"], tuple(sections)))
    return tuple(found)


def items() -> list[Item]:
    """Return every item once, in the order of its first deck."""
    return [item for deck in decks() for item in deck.items() if not item.again]


def chosen_decks(words: Iterable[str], number: int | None = None) -> list[Deck]:
    """Return the decks with the items that match every word. number: of this deck only"""
    asked = list(words)
    if number is not None and not 1 <= number <= len(decks()):
        raise UserError(f"there is no deck {number}", expected=f"1 to {len(decks())}")
    found = []
    for deck in decks():
        sections = [
            Section(section.title, kept)
            for section in deck.sections
            if (kept := tuple(item for item in section.items if all(item.matches(word) for word in asked)))
        ]
        if sections and number in (None, deck.number):
            found.append(replace(deck, sections=tuple(sections)))
    if not found:
        where = "the lectures" if number is None else f"deck {number}"
        raise UserError(f"nothing in {where} matches {' '.join(asked)!r}", hint="`patchword lecture` lists everything")
    return found


def to_json(chosen: Iterable[Deck]) -> list[dict[str, Any]]:
    """Return decks as data; an item with a table has its figures, too."""
    return [
        {
            "deck": deck.number,
            "title": deck.title,
            "sections": [
                {"title": section.title, "items": [_item_json(item) for item in section.items]}
                for section in deck.sections
            ],
        }
        for deck in chosen
    ]


def _item_json(item: Item) -> dict[str, Any]:
    table = item.published_table()
    return {**asdict(item), "source": item.where(), "table": table.to_json() if table else None}


def _item(entry: Mapping[str, Any], known: dict[str, Item]) -> Item:
    if "see" in entry:
        return replace(known[entry["see"]], again=True)
    fields = dict(entry)
    for name in ("command", "small", "result"):
        fields[name] = _several(entry.get(name))
    if fields["small"] == ("same",):
        fields["small"] = fields["command"]
    item = Item(**fields)
    if item.id in known:
        raise UserError(f"{FILE.name} has two items {item.id!r}", expected="`- see: ID` for the second one")
    known[item.id] = item
    return item


def _several(value: str | list[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)
