"""A comparison of models on paper: tables, a CSV, JSON, and pictures. What is compared, its subclasses say."""

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchword.core.files import whole_file

MARK = "*"  # of a published figure that is far from the counted one
Pictures = Mapping[str, Mapping[str, bytes]]  # of each name the content of each kind of file


@dataclass(frozen=True)
class Sheet:
    """One table. left: the columns of words; the others are numbers"""

    columns: Sequence[str]
    left: Sequence[str]
    lines: Sequence[Sequence[str]]


class Comparison(ABC):
    """Rows, and how they were measured."""

    machine: dict[str, Any]
    title: str

    @property
    def device(self) -> str:
        """The machine in a few words."""
        name, processor = self.machine["device"], self.machine["processor"]
        return f"CPU ({processor})" if name == "cpu" else str(name)

    @abstractmethod
    def sheets(self) -> list[Sheet]: ...

    @abstractmethod
    def notes(self) -> list[str]:
        """What a reader of the tables must know."""

    @abstractmethod
    def sources(self) -> list[str]:
        """Of the published figures; they are numbered from 1."""

    @abstractmethod
    def records(self) -> list[dict[str, object]]:
        """The lines of a spreadsheet: whole numbers, None where nothing is known."""

    @abstractmethod
    def pictures(self) -> Pictures:
        """All by name; one that would be empty has no files."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]: ...


def printed(figure: float | None, mark: bool = False) -> str:
    return "" if figure is None else f"{figure:g}{MARK if mark else ''}"


def rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"


def table(comparison: Comparison) -> str:
    """table.md"""
    text = [f"# {comparison.title}", ""]
    for sheet in comparison.sheets():
        lines = [sheet.columns, ["---" if title in sheet.left else "---:" for title in sheet.columns], *sheet.lines]
        text += [*(f"| {' | '.join(line)} |" for line in lines), ""]
    text += [f"- {note}" for note in comparison.notes()]
    sources = [f"{number}. {told}" for number, told in enumerate(comparison.sources(), 1)]
    return "\n".join([*text, *(["", "Sources:", "", *sources] if sources else []), ""])


def spreadsheet(comparison: Comparison) -> str:
    """comparison.csv"""
    text, records = io.StringIO(), comparison.records()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def write_comparison(comparison: Comparison, folder: Path) -> list[Path]:
    """Everything is made before anything is written; a picture that would be empty is left out."""
    files = {
        "table.md": table(comparison).encode(),
        "comparison.csv": spreadsheet(comparison).encode(),
        "comparison.json": json.dumps(comparison.to_json(), indent=2).encode(),
    }
    for name, kinds in comparison.pictures().items():
        files |= {f"{name}.{kind}": content for kind, content in kinds.items()}
        for kind in ("svg", "png"):
            (folder / f"{name}.{kind}").unlink(missing_ok=True)  # of another comparison
    for name, content in files.items():
        with whole_file(folder / name) as temporary:
            temporary.write_bytes(content)
    return [folder / name for name in files]
