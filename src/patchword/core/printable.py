"""Names from files as a terminal and a spreadsheet may have them: a class name can hold what both would carry out."""

import os
import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # all but tab and line feed
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet carries out a cell that begins with one of these


def printable(text: str) -> str:
    """Write control characters as they are written in Python, so that a terminal shows them and does not obey them.

    Marks that reverse the direction of a text are among them. Tabs and line feeds stay.
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def path_text(path: object) -> str:
    """Return a path as text that every file and terminal takes; bytes that are not UTF-8 are written as \\xff."""
    return os.fsencode(str(path)).decode("utf-8", "backslashreplace")


def csv_cell(value: object) -> object:
    """Put an apostrophe before a text that a spreadsheet would take for a formula; numbers stay as they are."""
    is_formula = isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value)
    return f"'{value}" if is_formula else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
