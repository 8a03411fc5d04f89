"""Tables of texts in CSV, TSV and JSON lines; the user names the columns."""

import csv
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from patchword.core.errors import UserError
from patchword.data.faults import Fault, attempt, report_fault, skipping_report
from patchword.data.skipping import FaultySamples
from patchword.data.text.formats.header import column_indices, missing_column, normalized_name
from patchword.data.text.formats.text_io import (
    check_characters,
    lines_of,
    parse_json,
    read_utf8,
    require_file,
    warn_mixed_line_ends,
)

KINDS = (".csv", ".tsv", ".jsonl")
TEXTS = frozenset({"text", "pair"})  # roles whose cells keep surrounding white space; it is removed from others
_LARGEST_CELL = 2**31 - 1  # characters; the default of the csv module is 131,072


@dataclass(frozen=True)
class TableFormat:
    """The file format of a table."""

    kind: Literal["csv", "tsv", "jsonl"]
    quoted: bool = True  # False: quotation marks are ordinary characters, as in GLUE's files
    header: tuple[str, ...] = ()  # column names, for files without a header
    short_rows: Literal["refuse", "drop"] = "refuse"

    @classmethod
    def of(cls, path: Path) -> "TableFormat":
        """Return the format of a file by its suffix."""
        kind = path.suffix.lower().removeprefix(".")
        if path.is_dir():
            require_file(path, KINDS)
        if kind not in ("csv", "tsv", "jsonl"):
            raise UserError(f"{path}: unknown table format", expected="a file name ending in .csv, .tsv or .jsonl")
        return cls(cast(Literal["csv", "tsv", "jsonl"], kind))


@dataclass(frozen=True)
class Table:
    """The requested columns of a table by role: "text", "pair", "label"."""

    path: Path
    names: dict[str, str]  # role -> name of the column in the file
    columns: dict[str, list[str]]  # role -> cells
    lines: list[int]  # the line of the file on which each row begins

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int, role: str) -> str:
        """Return the location of a cell for error messages."""
        return cell_place(self.path, self.lines[row], self.names[role])


def read_table(
    path: Path,
    columns: Mapping[str, str],
    form: TableFormat | None = None,
    may_be_empty: Collection[str] = (),
    classes: bool = False,
    training: bool = False,
) -> Table:
    """Read a table. columns: role -> column name. may_be_empty: roles whose cells may be empty.

    A row with an empty cell is a faulty sample. classes: the labels are classes, so that NaN is a missing value and a
    class may lose all its rows. training: the rows are trained on.
    """
    form = form or TableFormat.of(path)
    require_file(path, KINDS)
    text = read_utf8(path)
    if not text or text.isspace():
        raise UserError(f"{path} is empty", expected="a table")
    warn_mixed_line_ends(path, text)
    rows = _records(path, text, columns) if form.kind == "jsonl" else _rows(path, text, columns, form)
    table = Table(path, dict(columns), {role: [] for role in columns}, [])
    faulty, labels = FaultySamples(str(path), "rows", training), list[str]()
    for line, cells in rows:
        row = dict(zip(columns, cells, strict=True))
        labels.append(row.get("label", "").strip() if classes else "")
        places = {role: cell_place(path, line, name) for role, name in columns.items()}
        damaged = [place for role, place in places.items() if _is_damaged(place, role, row[role])]
        missing = [
            fault
            for role, place in places.items()
            if (fault := _missing(place, role, row[role], role in may_be_empty, classes)) is not None
        ]
        if missing and not damaged:
            for fault in missing if skipping_report() is None else missing[:1]:  # a row is skipped only once
                faulty.add(fault.error, fault.kind, labels[-1])
        elif missing:
            for fault in missing:
                report_fault(fault.error, fault.kind)
        elif not damaged:
            table.lines.append(line)
            for role, cell in row.items():
                table.columns[role].append(cell if role in TEXTS else cell.strip())
    if not labels:
        raise UserError(f"{path} has no rows", expected="rows below the header")
    faulty.finish(labels)
    return table


def _missing(place: str, role: str, cell: str, may_be_empty: bool, classes: bool) -> Fault | None:
    """Return the fault of a cell without a value."""
    error = None if may_be_empty else empty_error(place, role, cell)
    if error is not None:
        return Fault(f"the {role} is empty", error)
    if classes and role == "label" and cell.strip().casefold() == "nan":
        hint = "fill the cell, or remove the row; if a class has this name, rename it"
        error = UserError(f"{place}: the label is {cell.strip()}, a missing value", hint=hint)
        return Fault("a label that is NaN", error)
    return None


def _is_damaged(place: str, role: str, cell: str) -> bool:
    """True for a cell with a NUL byte, which is reported."""
    error = nul_error(place, role, cell)
    if error is not None:
        report_fault(error, "a NUL byte")
    return error is not None


def nul_error(place: str, role: str, cell: str) -> UserError | None:
    """Return the error of a cell with a NUL byte."""
    hint = "the file is damaged, or it is UTF-16 without a byte-order mark"
    return UserError(f"{place}: a NUL byte in the {role}", hint=hint) if "\0" in cell else None


def empty_error(place: str, role: str, cell: str) -> UserError | None:
    """Return the error of a cell without a value."""
    hint = "fill the cell, or remove the row"
    return None if cell.strip() else UserError(f"{place}: the {role} is empty", hint=hint)


def _rows(path: Path, text: str, columns: Mapping[str, str], form: TableFormat) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, requested cells) of each row of a CSV or TSV; a quoted cell can span several lines."""
    csv.field_size_limit(max(csv.field_size_limit(), _LARGEST_CELL))
    reader = csv.reader(
        lines_of(text),
        delimiter="," if form.kind == "csv" else "\t",
        quoting=csv.QUOTE_MINIMAL if form.quoted else csv.QUOTE_NONE,
        strict=True,
    )
    header, chosen, line = form.header, column_indices(path, form.header, columns) if form.header else [], 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            report_fault(broken_row(path, line, error, form.quoted), "a broken row")
            row = []
        if row and not header:
            header = tuple(map(normalized_name, row))
            chosen = column_indices(path, header, columns, line)
        elif (
            row
            and not (form.short_rows == "drop" and len(row) < len(header))
            and _has_all_cells(path, line, row, header)
        ):
            yield line, [row[place] for place in chosen]
        line = reader.line_num + 1


def broken_row(path: Path, line: int, error: csv.Error, quoted: bool) -> UserError:
    """Return the error of a row that is no CSV."""
    hint = "close the quotation mark, or double those inside a cell" if quoted else ""
    return UserError(f"{path}, line {line}: a broken row", got=str(error), hint=hint)


def _has_all_cells(path: Path, line: int, row: list[str], header: tuple[str, ...]) -> bool:
    error = length_error(path, line, row, header)
    if error is not None:
        report_fault(error, "a row whose length differs from the header")
    return error is None


def length_error(path: Path, line: int, row: list[str], header: tuple[str, ...]) -> UserError | None:
    """Return the error of a row that has not as many cells as the header."""
    if len(row) == len(header):
        return None
    if len(row) < len(header):
        what, hint = f"{cell_place(path, line, header[len(row)])}: the row is too short", ""
    else:
        what, hint = (
            f"{path}, line {line}: the row is too long",
            "a text with the separator in it needs quotation marks",
        )
    return UserError(what, expected=f"{len(header)} cells ({', '.join(header)})", got=len(row), hint=hint)


def _records(path: Path, text: str, columns: Mapping[str, str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, requested fields) of the JSON object on each line."""
    for line, source in enumerate(lines_of(text), 1):
        if not source.strip():
            continue
        cells = attempt(_record, path, line, source, columns)
        if cells is not None:
            yield line, cells


def _record(path: Path, line: int, source: str, columns: Mapping[str, str]) -> list[str]:
    record = parse_record(path, line, source)
    return [record_field(path, line, role, name, record) for role, name in columns.items()]


def parse_record(path: Path, line: int, source: str) -> dict[str, Any]:
    """Parse a line of JSON lines."""
    record = parse_json(source.rstrip(), path, line)
    if not isinstance(record, dict):
        raise UserError(f"{path}, line {line}: not a record", expected="a JSON object", got=source.strip()[:80])
    return record


def record_field(path: Path, line: int, role: str, name: str, record: dict[str, Any]) -> str:
    """Return a field of a record as text. role: what it is read as"""
    if name not in record:
        raise missing_column(path, line, role, name, list(record))
    value, where = record[name], cell_place(path, line, name)
    if value is None or isinstance(value, str):
        return check_characters(value or "", where)
    if role in TEXTS or isinstance(value, dict):
        raise UserError(f"{where}: the {role} is not a text", got=json.dumps(value)[:80])
    return json.dumps(value, ensure_ascii=False)  # a number, true or false, or a list of labels


def cell_place(path: Path, line: int, name: str) -> str:
    """Return where a cell is, for messages."""
    return f"{path}, line {line}, column {name!r}"
