"""Reads the rows of a table that can be read, and names the others by their lines."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from patchword.core.errors import UserError
from patchword.data.faults import DataError, collect_faults
from patchword.data.text.formats.tables import Table, TableFormat, read_table


def readable_rows(
    path: Path, columns: Mapping[str, str], form: TableFormat, may_be_empty: Collection[str] = ()
) -> tuple[Table, dict[int, UserError]]:
    """Return the table of the rows that can be read, and by line why the others cannot.

    An error that is not about one row, such as a missing column, is raised.
    """
    found: list[Table] = []
    try:
        with collect_faults() as report:
            found.append(read_table(path, columns, form, may_be_empty))
    except UserError:
        errors = [fault.error for fault in report.faults]
    else:
        return found[0], {}
    lines = [_line_of(error, path) for error in errors]
    if not found or None in lines:
        raise errors[0] if len(errors) == 1 else DataError(report.faults)
    first: dict[int, UserError] = {}
    for line, error in zip(lines, errors, strict=True):
        first.setdefault(line or 0, error)
    return found[0], first


def _line_of(error: UserError, path: Path) -> int | None:
    """Return the line of the file that an error names."""
    place = re.match(rf"{re.escape(str(path))}, line (\d+)\b", error.what)
    return int(place[1]) if place else None
