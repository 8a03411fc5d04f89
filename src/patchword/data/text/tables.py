"""Tables of texts: CSV, TSV and JSON lines, with the columns named by the user."""

import csv
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from patchword.core.errors import UserError, nearest
from patchword.data.text.reading import check_characters, lines_of, parse_json, read_utf8, require_file

KINDS = (".csv", ".tsv", ".jsonl")
TEXTS = frozenset({"text", "pair"})  # the roles whose cells are left as they are; others lose the space around them
_LARGEST_CELL = 2**31 - 1  # characters; the csv module refuses more than 131,072 unless told


@dataclass(frozen=True)
class Form:
    """How a table is written down."""

    kind: Literal["csv", "tsv", "jsonl"]
    quoted: bool = True  # False: quotation marks are characters like others, as in GLUE's files
    header: tuple[str, ...] = ()  # the names of the columns, if the file does not begin with them
    short_rows: Literal["refuse", "drop"] = "refuse"

    @classmethod
    def of(cls, path: Path) -> "Form":
        """By the ending of the file's name."""
        kind = path.suffix.lower().removeprefix(".")
        if path.is_dir():
            require_file(path, KINDS)
        if kind not in ("csv", "tsv", "jsonl"):
            raise UserError(f"{path}: the kind of table is not clear", expected="a name in .csv, .tsv or .jsonl")
        return cls(cast(Literal["csv", "tsv", "jsonl"], kind))


@dataclass(frozen=True)
class Table:
    """The columns that were asked for, by role: "text", "pair", "label"."""

    path: Path
    names: dict[str, str]  # role -> name of the column in the file
    columns: dict[str, list[str]]  # role -> cells
    lines: list[int]  # the line of the file on which each row begins

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int, role: str) -> str:
        """the place of a cell, as errors name it"""
        return _place(self.path, self.lines[row], self.names[role])


def read_table(
    path: Path, columns: Mapping[str, str], form: Form | None = None, may_be_empty: Collection[str] = ()
) -> Table:
    """columns: role -> name of its column. Cells must not be empty, but for the roles of `may_be_empty`."""
    form = form or Form.of(path)
    require_file(path, KINDS)
    text = read_utf8(path)
    if not text or text.isspace():
        raise UserError(f"{path} is empty", expected="a table")
    rows = _records(path, text, columns) if form.kind == "jsonl" else _rows(path, text, columns, form)
    table = Table(path, dict(columns), {role: [] for role in columns}, [])
    for line, cells in rows:
        for (role, name), cell in zip(columns.items(), cells, strict=True):
            if role not in may_be_empty and not cell.strip():
                raise UserError(
                    f"{_place(path, line, name)}: the {role} is empty", hint="fill the cell, or remove the row"
                )
            table.columns[role].append(cell if role in TEXTS else cell.strip())
        table.lines.append(line)
    if not table.lines:
        raise UserError(f"{path} has no rows", expected="rows below the names of the columns")
    return table


def _rows(path: Path, text: str, columns: Mapping[str, str], form: Form) -> Iterator[tuple[int, list[str]]]:
    """The chosen cells of each row of a CSV or TSV, and the line it begins on: a quoted cell can have several."""
    csv.field_size_limit(max(csv.field_size_limit(), _LARGEST_CELL))
    reader = csv.reader(
        lines_of(text),
        delimiter="," if form.kind == "csv" else "\t",
        quoting=csv.QUOTE_MINIMAL if form.quoted else csv.QUOTE_NONE,
        strict=True,
    )
    header, places, line = form.header, _places(path, form.header, columns) if form.header else [], 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            hint = "close the quotation mark, or double those inside a cell" if form.quoted else ""
            raise UserError(f"{path}, line {line}: a broken row", got=str(error), hint=hint) from None
        if row and not header:
            header = tuple(map(plain_name, row))
            places = _places(path, header, columns, line)
        elif row and (len(row) == len(header) or form.short_rows == "refuse" or len(row) > len(header)):
            _check_width(path, line, row, header)
            yield line, [row[place] for place in places]
        line = reader.line_num + 1


def _places(path: Path, header: Collection[str], columns: Mapping[str, str], line: int = 1) -> list[int]:
    """the number of each column asked for"""
    names = list(header)
    if twice := [name for name in names if name and names.count(name) > 1]:
        hint = _NO_HEADER if _is_data(names) else "rename one"
        raise UserError(f"{path}, line {line}: two columns have the name {twice[0]!r}", hint=hint)
    wanted = {role: plain_name(name) for role, name in columns.items()}
    for role, name in wanted.items():
        if name not in names:
            raise _missing(path, line, role, name, names, _NO_HEADER if _is_data(names) else "")
    return [names.index(name) for name in wanted.values()]


def plain_name(name: str) -> str:
    """A column's name without the space around it and the mark some programs put at the start of a file."""
    return name.strip(" \t\N{NO-BREAK SPACE}\N{ZERO WIDTH NO-BREAK SPACE}")


_NO_HEADER = "is the line with the names of the columns missing? It must be the first: text,label"


def _is_data(names: list[str]) -> bool:
    """What no one would call a column: a number, or a sentence."""
    return any(_is_number(name) or len(name) > 40 or len(name.split()) > 5 for name in names)


def _is_number(name: str) -> bool:
    return name.replace(".", "", 1).removeprefix("-").isdecimal()


def _check_width(path: Path, line: int, row: list[str], header: tuple[str, ...]) -> None:
    if len(row) == len(header):
        return
    if len(row) < len(header):
        what, hint = f"{_place(path, line, header[len(row)])}: the row is too short", ""
    else:
        what, hint = (
            f"{path}, line {line}: the row is too long",
            "a text with the separator in it needs quotation marks",
        )
    raise UserError(what, expected=f"{len(header)} cells ({', '.join(header)})", got=len(row), hint=hint)


def _records(path: Path, text: str, columns: Mapping[str, str]) -> Iterator[tuple[int, list[str]]]:
    """The chosen fields of the JSON object on each line."""
    for line, source in enumerate(lines_of(text), 1):
        if not source.strip():
            continue
        record = parse_json(source.rstrip(), path, line)
        if not isinstance(record, dict):
            raise UserError(f"{path}, line {line}: not a record", expected="a JSON object", got=source.strip()[:80])
        yield line, [_field(path, line, role, name, record) for role, name in columns.items()]


def _field(path: Path, line: int, role: str, name: str, record: dict[str, Any]) -> str:
    if name not in record:
        raise _missing(path, line, role, name, list(record))
    value, where = record[name], _place(path, line, name)
    if value is None or isinstance(value, str):
        return check_characters(value or "", where)
    if role in TEXTS or isinstance(value, dict):
        raise UserError(f"{where}: the {role} is not a text", got=json.dumps(value)[:80])
    return json.dumps(value, ensure_ascii=False)  # a number, true or false, or a list of labels


def _missing(path: Path, line: int, role: str, name: str, names: list[str], doubt: str = "") -> UserError:
    close = nearest(name, names)
    if len(names) == 1 and (mark := next((mark for mark in ";\t|" if mark in names[0]), "")):
        return UserError(
            f"{path}, line {line}: the cells are separated by {'tabs' if mark == chr(9) else repr(mark)}",
            expected="commas in a .csv, tabs in a .tsv",
            hint="save it with commas, or as .tsv with tabs",
        )
    return UserError(
        f"{path}, line {line}: there is no column {name!r} for the {role}",
        expected="one of " + ", ".join(repr(known if len(known) <= 60 else f"{known[:59]}…") for known in names),
        hint=doubt or (close if close.startswith("did") else ""),
    )


def _place(path: Path, line: int, name: str) -> str:
    return f"{path}, line {line}, column {name!r}"
