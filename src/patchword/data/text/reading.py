"""Text and JSON out of files; what is broken is named by file, line and place."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # how a UTF-16 file begins


_NOT_TEXT = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"%PDF", b"\x89PNG", b"\xff\xd8\xff", b"\x1f\x8b")  # Office, PDF, ...


def read_utf8(path: Path) -> str:
    """The text of a file, without the mark some editors put at its start; line ends are left as they are."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}", got=error.strerror or str(error)) from None
    if data.startswith(_NOT_TEXT):
        raise UserError(f"{path} is not a text file", hint="export its texts as CSV (UTF-8) or as plain text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: len(data) - len(error.object) + error.start]  # the mark is not part of error.object
        line, byte = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        wide = data.startswith(_WIDE_MARKS)
        raise UserError(
            f"{path}, line {line}, byte {byte}: this is not UTF-8",
            got=f"0x{error.object[error.start]:02x} ({error.reason})",
            hint="it looks like UTF-16: save it as UTF-8" if wide else "save the file as UTF-8",
        ) from None


def lines_of(text: str) -> Iterator[str]:
    """Lines with their ends; one at a time, for a file can be large, and only at line feeds and carriage returns."""
    return (found[0] for found in _LINE.finditer(text))


def parse_json(text: str, path: Path, line: int = 1) -> Any:
    """`text` stands at `line` of the file `path`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {line + error.lineno - 1}, character {error.colno}"
        raise UserError(f"{path}, {place}: this is not JSON", got=error.msg) from None
    except RecursionError:
        raise UserError(f"{path}, line {line}: JSON that is nested too deeply") from None
    except ValueError:  # Python refuses whole numbers of more than 4,300 digits
        raise UserError(f"{path}, line {line}: JSON with a number that is too long") from None


def check_characters(text: str, where: str) -> str:
    """JSON can spell half a character, which no text file can hold and no tokenizer can read."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{where}: half a character", got=repr(text[error.start]), hint="mend the escape") from None
    return text
