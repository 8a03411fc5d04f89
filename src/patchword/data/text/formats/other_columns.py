"""The other columns of a table, which are copied to the predictions."""

import csv
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.data.text.formats.header import normalized_name
from patchword.data.text.formats.readable_rows import readable_rows
from patchword.data.text.formats.tables import TableFormat
from patchword.data.text.formats.text_io import lines_of, parse_json, read_utf8

Cells = Mapping[str, Any]


def other_columns(path: Path, but: Collection[str], form: TableFormat | None = None) -> dict[int, Cells]:
    """Return line number of a row -> its cells by column, without the columns of `but`."""
    form = form or TableFormat.of(path)
    if form.kind == "jsonl":
        return _fields(path, but)
    names = [name for name in dict.fromkeys(form.header or _header(path, form)) if name not in but]
    if not names:
        return {}
    table, _ = readable_rows(path, {name: name for name in names}, form, may_be_empty=names)
    rows = zip(*(table.columns[name] for name in names), strict=True)
    return {line: dict(zip(names, row, strict=True)) for line, row in zip(table.lines, rows, strict=True)}


def _header(path: Path, form: TableFormat) -> list[str]:
    reader = csv.reader(
        lines_of(read_utf8(path)),
        delimiter="," if form.kind == "csv" else "\t",
        quoting=csv.QUOTE_MINIMAL if form.quoted else csv.QUOTE_NONE,
    )
    return [normalized_name(name) for name in next((row for row in reader if row), [])]


def _fields(path: Path, but: Collection[str]) -> dict[int, Cells]:
    """Read JSON lines. Values that are neither text nor number are written as JSON, since they must fit into a cell."""
    sources = ((line, source.strip()) for line, source in enumerate(lines_of(read_utf8(path)), 1))
    records = ((line, _record(source, path, line)) for line, source in sources if source)
    return {
        line: {name: cell_value(value) for name, value in record.items() if name not in but} for line, record in records
    }


def _record(source: str, path: Path, line: int) -> dict[str, Any]:
    """Return the fields of a line; none of a line that is no record, for which there is no prediction either."""
    try:
        record = parse_json(source, path, line)
    except UserError:
        return {}
    return record if isinstance(record, dict) else {}


def cell_value(value: Any) -> Any:
    """Return a value of a record as it fits into a cell."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else value
