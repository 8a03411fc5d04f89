"""The header of a table: its column names and their checks."""

from collections.abc import Collection, Mapping
from pathlib import Path

from patchword.core.errors import UserError, nearest
from patchword.data.faults import report_fault


def column_indices(path: Path, header: Collection[str], columns: Mapping[str, str], line: int = 1) -> list[int]:
    """Return the index of each requested column."""
    names = list(header)
    if twice := [name for name in names if name and names.count(name) > 1]:
        hint = _NO_HEADER if _is_data(names) else "rename one"
        raise UserError(f"{path}, line {line}: two columns have the name {twice[0]!r}", hint=hint)
    wanted = {role: normalized_name(name) for role, name in columns.items()}
    hint = _NO_HEADER if _is_data(names) else ""
    missing = [missing_column(path, line, *one, names, hint) for one in wanted.items() if one[1] not in names]
    if missing:
        for error in missing[:-1]:
            report_fault(error)
        raise missing[-1]
    return [names.index(name) for name in wanted.values()]


def normalized_name(name: str) -> str:
    """Remove white space and byte-order marks around a column name."""
    return name.strip(" \t\N{NO-BREAK SPACE}\N{ZERO WIDTH NO-BREAK SPACE}")


_NO_HEADER = "is the header missing? The first line must contain the column names: text,label"


def _is_data(names: list[str]) -> bool:
    """True if a name looks like data: a number or a sentence."""
    return any(_is_number(name) or len(name) > 40 or len(name.split()) > 5 for name in names)


def _is_number(name: str) -> bool:
    return name.replace(".", "", 1).removeprefix("-").isdecimal()


class MissingColumnError(UserError):
    """A table has no column of a requested name."""


def missing_column(
    path: Path, line: int, role: str, name: str, names: list[str], doubt: str = ""
) -> "MissingColumnError":
    close = nearest(name, names)
    if len(names) == 1 and (mark := next((mark for mark in ";\t|" if mark in names[0]), "")):
        return MissingColumnError(
            f"{path}, line {line}: the cells are separated by {'tabs' if mark == chr(9) else repr(mark)}",
            expected="commas in a .csv, tabs in a .tsv",
            hint="save it with commas, or as .tsv with tabs",
        )
    return MissingColumnError(
        f"{path}, line {line}: there is no column {name!r} for the {role}",
        expected="one of " + ", ".join(repr(known if len(known) <= 60 else f"{known[:59]}…") for known in names),
        hint=doubt or (close if close.startswith("did") else ""),
    )
