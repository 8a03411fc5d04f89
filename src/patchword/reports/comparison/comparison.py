"""A comparison of models as files: tables, CSV, JSON and figures. Subclasses define what is compared."""

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchword.core.files import whole_file

MARK = "*"  # marks a published figure that differs from the counted one
Figures = Mapping[str, Mapping[str, bytes]]  # name -> file format -> content


@dataclass(frozen=True)
class Sheet:
    """One table. left: the text columns; the others are numbers."""

    columns: Sequence[str]
    left: Sequence[str]
    lines: Sequence[Sequence[str]]


class Comparison(ABC):
    """Rows, and the conditions of their measurement."""

    machine: dict[str, Any]
    title: str

    @property
    def device(self) -> str:
        """A short description of the machine."""
        name, processor = self.machine["device"], self.machine["processor"]
        return f"CPU ({processor})" if name == "cpu" else str(name)

    @abstractmethod
    def sheets(self) -> list[Sheet]: ...

    @abstractmethod
    def notes(self) -> list[str]:
        """Return what a reader of the tables must know."""

    @abstractmethod
    def sources(self) -> list[str]:
        """Return the sources of the published figures; they are numbered from 1."""

    @abstractmethod
    def records(self) -> list[dict[str, object]]:
        """Return the rows of the spreadsheet, with unrounded numbers, None where nothing is known."""

    @abstractmethod
    def figures(self) -> Figures:
        """Return all figures by name; one that would be empty has no files."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]: ...


def printed(figure: float | None, mark: bool = False) -> str:
    """Format a published figure."""
    return "" if figure is None else f"{figure:g}{MARK if mark else ''}"


def rate(per_second: float) -> str:
    """Format a number per second."""
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"


def table(comparison: Comparison) -> str:
    """Return the content of table.md."""
    text = [f"# {comparison.title}", ""]
    for sheet in comparison.sheets():
        lines = [sheet.columns, ["---" if title in sheet.left else "---:" for title in sheet.columns], *sheet.lines]
        text += [*(f"| {' | '.join(line)} |" for line in lines), ""]
    text += [f"- {note}" for note in comparison.notes()]
    sources = [f"{number}. {source}" for number, source in enumerate(comparison.sources(), 1)]
    return "\n".join([*text, *(["", "Sources:", "", *sources] if sources else []), ""])


def spreadsheet(comparison: Comparison) -> str:
    """Return the content of comparison.csv."""
    text, records = io.StringIO(), comparison.records()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def write_comparison(comparison: Comparison, folder: Path) -> list[Path]:
    """Write all files, once all of them are made; a figure that would be empty is left out."""
    files = {
        "table.md": table(comparison).encode(),
        "comparison.csv": spreadsheet(comparison).encode(),
        "comparison.json": json.dumps(comparison.to_json(), indent=2).encode(),
    }
    for name, kinds in comparison.figures().items():
        files |= {f"{name}.{kind}": content for kind, content in kinds.items()}
        for kind in ("svg", "png"):
            (folder / f"{name}.{kind}").unlink(missing_ok=True)  # of an earlier comparison
    for name, content in files.items():
        with whole_file(folder / name) as temporary:
            temporary.write_bytes(content)
    return [folder / name for name in files]
