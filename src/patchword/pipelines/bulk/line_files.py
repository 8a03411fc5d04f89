"""Tables and text files as inputs of any size: CSV, TSV, JSON lines, one text per line. A line is read when it is used.

Errors and their words are those of `predict`, which reads a file as a whole.
"""

import csv
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

from patchword.core.errors import UserError
from patchword.data.text.formats.header import MissingColumnError, column_indices, normalized_name
from patchword.data.text.formats.other_columns import cell_value
from patchword.data.text.formats.tables import (
    TEXTS,
    broken_row,
    cell_place,
    empty_error,
    length_error,
    nul_error,
    parse_record,
    record_field,
)
from patchword.data.text.formats.text_io import WIDE_MARKS, not_utf8, refuse_binary
from patchword.pipelines.bulk.identity import file_identity
from patchword.pipelines.bulk.rows import Row, Shard, Wanted, in_shards
from patchword.recipes.text.inference.input import Columns, TextInput, texts_of_line

SUFFIXES = (".csv", ".tsv", ".jsonl", ".txt")
_LONGEST = 2**26  # characters of one row: an unclosed quotation mark would take the rest of the file into memory
_CELL = 2**31 - 1
_BLANK = "\r\n \t"


class LineFile:
    """A table or a text file. columns: what the model reads of a table, and whether a text line holds a pair."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path, self.columns = path, columns
        self.rows, self._bytes = 0, path.stat().st_size
        self._file: IO[bytes] | None = None

    @property
    def fraction(self) -> float:
        return 1.0 if self._file is None or self._file.closed else self._file.tell() / max(1, self._bytes)

    def identity(self) -> dict[str, Any]:
        return file_identity(self.path)

    def check(self) -> None:
        with self._open() as file:
            head = file.buffer.peek(4096) if hasattr(file.buffer, "peek") else b""
            refuse_binary(self.path, head)
            if head.startswith(WIDE_MARKS):
                hint = "it looks like UTF-16; convert it to UTF-8 first"
                raise UserError(f"{self.path}, line 1, byte 1: this is not UTF-8", got=f"0x{head[0]:02x}", hint=hint)
        with closing(self._rows()) as rows:
            first = next(rows, None)
        if first is None:
            expected = "one text per line" if self.path.suffix.lower() == ".txt" else "rows below the header"
            raise UserError(f"{self.path} has no rows", expected=expected)
        if isinstance(first.error, MissingColumnError):
            raise first.error

    def shards(self, size: int, wanted: Wanted) -> Iterator[Shard]:
        self.rows = 0
        yield from in_shards(self._counted(), size, wanted)

    def _counted(self) -> Iterator[Row]:
        for row in self._rows():
            self.rows += 1
            yield row

    @contextmanager
    def _open(self) -> Iterator[TextIOWrapper]:
        """Open the file; bytes that are not UTF-8 become lone surrogates, so that only their rows are broken."""
        try:
            with self.path.open("rb") as binary:
                self._file = binary
                yield TextIOWrapper(binary, "utf-8-sig", errors="surrogateescape", newline="")
        except OSError as error:
            raise UserError(f"cannot read {self.path}", got=error.strerror or str(error)) from None

    def _rows(self) -> Generator[Row, None, None]:
        with self._open() as file:
            kind = self.path.suffix.lower()
            if kind == ".txt":
                yield from self._text_rows(file)
            elif kind == ".jsonl":
                yield from self._json_rows(file)
            else:
                yield from self._table_rows(file)

    def _text_rows(self, file: TextIOWrapper) -> Iterator[Row]:
        """One text per line; blank lines at the end, and blanks at the end of the last line, are ignored."""
        text: tuple[int, str] | None = None  # the last line with a text; blank lines may follow
        begin = 1
        for number, line in self._numbered(file):
            if not line.strip(_BLANK):
                continue
            if text is not None:
                yield self._text_row(*text)
            for blank in range(begin, number):
                yield self._text_row(blank, "")
            text, begin = (number, line), number + 1
        if text is not None:
            yield self._text_row(text[0], text[1].rstrip(_BLANK))

    def _text_row(self, line: int, source: str) -> Row:
        try:
            _check_utf8(self.path, line, source)
            first, second = texts_of_line(source.rstrip("\r\n"), f"{self.path}, line {line}", bool(self.columns.pair))
        except UserError as error:
            return self._broken(line, error)
        return self._row(line, {"text": first, "pair": second}, {})

    def _json_rows(self, file: TextIOWrapper) -> Iterator[Row]:
        for line, source in self._numbered(file):
            if source.strip():
                yield self._json_row(line, source)

    def _json_row(self, line: int, source: str) -> Row:
        others: dict[str, Any] = {}
        try:
            _check_utf8(self.path, line, source)
            record = parse_record(self.path, line, source)
            read = self._read_columns()
            others = {name: cell_value(value) for name, value in record.items() if name not in read.values()}
            cells = {role: record_field(self.path, line, role, name, record) for role, name in read.items()}
            self._check_cells(line, cells)
        except UserError as error:
            return self._broken(line, error, others)
        return self._row(line, cells, others)

    def _table_rows(self, file: TextIOWrapper) -> Iterator[Row]:
        """CSV or TSV; a quoted cell can span several lines."""
        csv.field_size_limit(max(csv.field_size_limit(), _CELL))
        tabs, header, read = self.path.suffix.lower() == ".tsv", tuple[str, ...](), self._read_columns()
        quoted = not tabs or self.columns.quoted
        lines = _RowLines(self, file)
        reader = csv.reader(
            lines,
            delimiter="\t" if tabs else ",",
            quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
            strict=True,
        )
        line, chosen, others = 1, dict[str, int](), dict[str, int]()
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield self._broken(line, broken_row(self.path, line, error, quoted))
                row = []
            is_header = False
            if row and not header:
                named = tuple(map(normalized_name, row))
                is_header = quoted or not self.columns.header or read["text"] in named
                header = named if is_header else self.columns.header
                chosen = dict(zip(read, column_indices(self.path, header, read, line), strict=True))
                others = {name: place for place, name in enumerate(header) if place not in chosen.values()}
            if row and not is_header:
                fault = lines.error or length_error(self.path, line, row, header)
                yield self._broken(line, fault) if fault else self._table_row(line, row, chosen, others)
            line, lines.error, lines.length = reader.line_num + 1, None, 0

    def _table_row(self, line: int, row: list[str], chosen: dict[str, int], others: dict[str, int]) -> Row:
        kept = {name: row[place] if name in TEXTS else row[place].strip() for name, place in others.items()}
        cells = {role: row[place] for role, place in chosen.items()}
        try:
            self._check_cells(line, cells)
        except UserError as faulty:
            return self._broken(line, faulty, kept)
        return self._row(line, cells, kept)

    def _read_columns(self) -> dict[str, str]:
        """Return role -> name of the columns that the model reads."""
        pair = {"pair": self.columns.pair} if self.columns.pair else {}
        return {"text": normalized_name(self.columns.text), **pair}

    def _check_cells(self, line: int, cells: dict[str, str]) -> None:
        names = self._read_columns()
        places = {role: cell_place(self.path, line, names[role]) for role in cells}
        for error in (
            find(places[role], role, cell) for find in (nul_error, empty_error) for role, cell in cells.items()
        ):
            if error is not None:
                raise error

    def _numbered(self, file: TextIOWrapper) -> Iterator[tuple[int, str]]:
        number = 0
        while line := file.readline(_LONGEST):
            number += 1
            if len(line) == _LONGEST:
                raise UserError(
                    f"{self.path}, line {number} is too long", expected=f"fewer than {_LONGEST:,} characters"
                )
            yield number, line

    def _row(self, line: int, cells: dict[str, Any], others: dict[str, Any]) -> Row:
        place = {"file": str(self.path), "line": line}
        return Row(place, TextInput(cells["text"], cells.get("pair"), place), others)

    def _broken(self, line: int, error: UserError, others: dict[str, Any] | None = None) -> Row:
        place = {"file": str(self.path), "line": line}
        return Row(place, TextInput("", None, place, error=error), others or {})


class _RowLines:
    """The lines that csv reads. error: why a line of the current row is not UTF-8. length: its characters so far."""

    def __init__(self, source: LineFile, file: TextIOWrapper) -> None:
        self._lines = source._numbered(file)
        self._path = source.path
        self.error: UserError | None = None
        self.length = 0

    def __iter__(self) -> Iterator[str]:
        for number, line in self._lines:
            self.length += len(line)
            if self.length > _LONGEST:
                hint = "is a quotation mark left open? Close it, or double those inside a cell"
                what = f"{self._path}, line {number}: a row of more than {_LONGEST:,} characters"
                raise UserError(what, hint=hint)
            try:
                _check_utf8(self._path, number, line)
            except UserError as error:
                self.error = self.error or error
            yield line


def _check_utf8(path: Path, number: int, line: str) -> None:
    """Raise an error for a line with bytes that are not UTF-8, which were read as lone surrogates."""
    try:
        line.encode("utf-8", "surrogateescape").decode()
    except UnicodeDecodeError as error:
        raise not_utf8(path, number, error.start + 1, error) from None
