"""Read text and JSON files; errors name file, line and position."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.data.faults import is_collecting, report_fault, warn

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # byte-order marks of UTF-16
_GUESSES = ("WINDOWS-1252", "GB18030")  # likely encodings of Western and Chinese texts that are not UTF-8
_NOT_TEXT = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"%PDF", b"\x89PNG", b"\xff\xd8\xff", b"\x1f\x8b")  # Office, PDF, ...


def require_file(path: Path, kinds: Sequence[str]) -> None:
    """Raise an error if the path is not a file; for a folder, the error names its files with these suffixes."""
    if path.is_dir():
        inside = sorted(file.name for file in path.iterdir() if file.suffix.lower() in kinds)
        more = ", ..." if len(inside) > 5 else ""
        raise UserError(
            f"{path} is a folder",
            expected=f"a file in {' or '.join(kinds)}",
            got="a folder",
            hint=f"it contains {', '.join(inside[:5])}{more}" if inside else "",
        )
    if not path.is_file():
        raise UserError(f"there is no file {path}", expected=f"a file in {' or '.join(kinds)}")


def read_utf8(path: Path) -> str:
    """Return the text of a file without byte-order mark; line ends are kept."""
    if path.is_dir():
        raise UserError(f"{path} is a folder", expected="a file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}", got=error.strerror or str(error)) from None
    refuse_binary(path, data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: len(data) - len(error.object) + error.start]  # the byte-order mark is not part of error.object
        line, byte = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        first = not_utf8(path, line, byte, error, _conversion(path, data, before))
        if data.startswith(WIDE_MARKS) or not is_collecting():
            raise first from None
        report_fault(first, NOT_UTF8)
        _report_others(path, data, line)
        return data.decode("utf-8-sig", errors="replace")


def refuse_binary(path: Path, data: bytes) -> None:
    """Raise an error for Office, PDF, image and packed files. data: the beginning of the file, or all of it."""
    if data.startswith(_NOT_TEXT):
        raise UserError(f"{path} is not a text file", hint="export its texts as CSV (UTF-8) or as plain text")


NOT_UTF8 = "a line that is not UTF-8"


def not_utf8(path: Path, line: int, byte: int, error: UnicodeDecodeError, hint: str = "") -> UserError:
    """Return the error of a line that is not UTF-8. byte: of the line, from 1"""
    got = f"0x{error.object[error.start]:02x} ({error.reason})"
    return UserError(f"{path}, line {line}, byte {byte}: this is not UTF-8", got=got, hint=hint)


def _report_others(path: Path, data: bytes, behind: int) -> None:
    """Report the broken lines after the first one."""
    for line, content in enumerate(data.split(b"\n"), 1):
        if line > behind:
            try:
                content.decode("utf-8")
            except UnicodeDecodeError as error:
                report_fault(not_utf8(path, line, error.start + 1, error), NOT_UTF8)


def warn_mixed_line_ends(path: Path, text: str) -> None:
    """Warn of mixed line ends: they are read correctly, but the file may be a mixture of several."""
    windows = text.count("\r\n")
    kinds = {"\\r\\n": windows, "\\n": text.count("\n") - windows, "\\r": text.count("\r") - windows}
    if sum(count > 0 for count in kinds.values()) > 1:
        counts = ", ".join(f"{count:,} lines end in {end}" for end, count in kinds.items() if count)
        warn("mixed line ends (they are read correctly)", f"{path}: {counts}")


def _conversion(path: Path, data: bytes, before: bytes) -> str:
    """Return a hint with the command that converts a file to UTF-8. before: its leading part that is UTF-8."""
    new = path.with_stem(f"{path.stem}-utf8")
    files = f"{shlex.quote(str(path))} > {shlex.quote(str(new))}"
    if data.startswith(WIDE_MARKS):
        return f"it looks like UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {files}"
    if not before.isascii():
        return (
            f"the text before it is UTF-8: fix the line, or drop the broken bytes: iconv -c -f UTF-8 -t UTF-8 {files}"
        )
    guess = next((name for name in _GUESSES if _reads(data, name)), None)
    if guess is None:
        return f"convert it from its encoding (`iconv -l` lists them): iconv -f ENCODING -t UTF-8 {files}"
    return f"it may be {guess}; convert it: iconv -f {guess} -t UTF-8 {files}"


def _reads(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def lines_of(text: str) -> Iterator[str]:
    """Yield lines with their ends; only line feeds and carriage returns end a line."""
    return (found[0] for found in _LINE.finditer(text))


def parse_json(text: str, path: Path, line: int = 1) -> Any:
    """Parse JSON. path, line: location of the text, for error messages."""
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, path, line))
    except UserError:
        raise
    except json.JSONDecodeError as error:
        place = f"line {line + error.lineno - 1}, character {error.colno}"
        raise UserError(f"{path}, {place}: this is not JSON", got=error.msg) from None
    except RecursionError:
        raise UserError(f"{path}, line {line}: the JSON is nested too deeply") from None
    except ValueError:  # Python refuses whole numbers of more than 4,300 digits
        raise UserError(f"{path}, line {line}: the JSON has a number with too many digits") from None


def _object(pairs: list[tuple[str, Any]], path: Path, line: int) -> dict[str, Any]:
    """Build a JSON object and refuse duplicate names, which readers resolve differently."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise UserError(f"{path}, line {line}: the name {twice[:80]!r} occurs twice in one object", hint="remove one")
    return found


def check_characters(text: str, where: str) -> str:
    """Raise an error if a text has a lone surrogate, which JSON can contain and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{where}: half a character", got=repr(text[error.start]), hint="fix the escape") from None
    return text
