"""Text and JSON out of files; what is broken is named by file, line and place."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.data.faults import doubt, gathering, tell

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # how a UTF-16 file begins
_GUESSES = ("WINDOWS-1252", "GB18030")  # what files of Western and of Chinese texts are in, if not in UTF-8
_NOT_TEXT = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"%PDF", b"\x89PNG", b"\xff\xd8\xff", b"\x1f\x8b")  # Office, PDF, ...


def require_file(path: Path, kinds: Sequence[str]) -> None:
    """A folder is no file; those of these kinds in it are named."""
    if path.is_dir():
        inside = sorted(file.name for file in path.iterdir() if file.suffix.lower() in kinds)
        more = ", ..." if len(inside) > 5 else ""
        raise UserError(
            f"{path} is a folder",
            expected=f"a file in {' or '.join(kinds)}",
            got="a folder",
            hint=f"it holds {', '.join(inside[:5])}{more}" if inside else "",
        )
    if not path.is_file():
        raise UserError(f"there is no file {path}", expected=f"a file in {' or '.join(kinds)}")


def read_utf8(path: Path) -> str:
    """The text of a file, without the mark some editors put at its start; line ends are left as they are."""
    if path.is_dir():
        raise UserError(f"{path} is a folder", expected="a file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}", got=error.strerror or str(error)) from None
    refuse_other(path, data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: len(data) - len(error.object) + error.start]  # the mark is not part of error.object
        line, byte = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        first = _not_utf8(path, line, byte, error, _conversion(path, data, before))
        if data.startswith(_WIDE_MARKS) or not gathering():
            raise first from None
        tell(first, NOT_UTF8)
        _tell_others(path, data, line)
        return data.decode("utf-8-sig", errors="replace")


def refuse_other(path: Path, data: bytes) -> None:
    """data: how the file begins, or all of it"""
    if data.startswith(_NOT_TEXT):
        raise UserError(f"{path} is not a text file", hint="export its texts as CSV (UTF-8) or as plain text")


NOT_UTF8 = "a line that is not UTF-8"


def _not_utf8(path: Path, line: int, byte: int, error: UnicodeDecodeError, hint: str = "") -> UserError:
    got = f"0x{error.object[error.start]:02x} ({error.reason})"
    return UserError(f"{path}, line {line}, byte {byte}: this is not UTF-8", got=got, hint=hint)


def _tell_others(path: Path, data: bytes, behind: int) -> None:
    """The lines behind the first broken one that are broken, too."""
    for line, content in enumerate(data.split(b"\n"), 1):
        if line > behind:
            try:
                content.decode("utf-8")
            except UnicodeDecodeError as error:
                tell(_not_utf8(path, line, error.start + 1, error), NOT_UTF8)


def doubt_line_ends(path: Path, text: str) -> None:
    """They are read right, but tell of a file that was put together from several."""
    windows = text.count("\r\n")
    kinds = {"\\r\\n": windows, "\\n": text.count("\n") - windows, "\\r": text.count("\r") - windows}
    if sum(count > 0 for count in kinds.values()) > 1:
        told = ", ".join(f"{count:,} lines end in {end}" for end, count in kinds.items() if count)
        doubt("line ends of several kinds (they are read right)", f"{path}: {told}")


def _conversion(path: Path, data: bytes, before: bytes) -> str:
    """The command that would make UTF-8 of a file; `before`: its part that is UTF-8."""
    new = path.with_stem(f"{path.stem}-utf8")
    files = f"{shlex.quote(str(path))} > {shlex.quote(str(new))}"
    if data.startswith(_WIDE_MARKS):
        return f"it looks like UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {files}"
    if not before.isascii():
        return f"what comes before is UTF-8: mend the line, or drop what is broken: iconv -c -f UTF-8 -t UTF-8 {files}"
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
    """Lines with their ends; one at a time, for a file can be large, and only at line feeds and carriage returns."""
    return (found[0] for found in _LINE.finditer(text))


def parse_json(text: str, path: Path, line: int = 1) -> Any:
    """`text` stands at `line` of the file `path`."""
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, path, line))
    except UserError:
        raise
    except json.JSONDecodeError as error:
        place = f"line {line + error.lineno - 1}, character {error.colno}"
        raise UserError(f"{path}, {place}: this is not JSON", got=error.msg) from None
    except RecursionError:
        raise UserError(f"{path}, line {line}: JSON that is nested too deeply") from None
    except ValueError:  # Python refuses whole numbers of more than 4,300 digits
        raise UserError(f"{path}, line {line}: JSON with a number that is too long") from None


def _object(pairs: list[tuple[str, Any]], path: Path, line: int) -> dict[str, Any]:
    """Of two values under one name, readers choose differently."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise UserError(f"{path}, line {line}: the name {twice[:80]!r} is there twice in one object", hint="remove one")
    return found


def check_characters(text: str, where: str) -> str:
    """JSON can spell half a character, which no text file can hold and no tokenizer can read."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{where}: half a character", got=repr(text[error.start]), hint="mend the escape") from None
    return text
