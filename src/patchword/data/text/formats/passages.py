"""Readers of the document formats: a file as a stream of passages, each with a flag whether it begins a document.

A passage is a line, or a paragraph whose lines an editor wrapped. A very long line is returned in parts, so that no
file is in memory as a whole.

A faulty line is an error. Inside a report (data/faults.py) the error is collected and the line is skipped.
"""

import codecs
import json
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import NamedTuple, cast

from patchword.core.errors import UserError
from patchword.data.faults import attempt, report_fault
from patchword.data.text.formats.text_io import NOT_UTF8, refuse_binary

_MANY = 1000  # faults of one file after which reading stops
_BLOCK = 2**20  # bytes
_WRAPPED = range(50, 101)  # characters of a line that an editor wrapped
_PARAGRAPH = 1000  # maximum lines of a paragraph


class Line(NamedTuple):
    number: int
    text: str
    fresh: bool  # False if it continues a long line
    read: int  # bytes of the file up to its end


class Passage(NamedTuple):
    text: str
    begins: bool  # True if it begins a document
    read: int  # bytes of the file up to its end


def opened(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {path}", got=error.strerror) from None


def is_wrapped(texts: Sequence[str]) -> bool:
    return len(texts) > 1 and all(len(text.strip()) in _WRAPPED for text in texts[:-1])


def lines(path: Path, part: int) -> Iterator[Line]:
    """Yield decoded lines, so that an error can name the broken one; lines over `part` bytes are split."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    number, fresh, read, begun, kept, broken = 1, True, 0, 0, "", list[int]()
    with opened(path) as file:
        for raw in chain(iter(lambda: file.readline(part), b""), [b""]):
            if not read:
                refuse_binary(path, raw)
            try:
                text = kept + decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as error:
                column = read - begun - len(decoder.getstate()[0]) + error.start + 1
                if number not in broken[-1:]:
                    _report_broken(path, number, column, error)
                    broken.append(number)
                _check_few(path, len(broken))
                decoder.reset()
                text = ""
            read += len(raw)
            ended = raw.endswith(b"\n") or not raw
            text, kept = (text, "") if ended else _at_a_space(text)
            if read == len(raw):
                text = text.removeprefix("\ufeff")
            if raw or text:
                yield Line(number, text.strip(), fresh, read)
            fresh = ended
            if ended:
                number, begun = number + 1, read


def is_sound(path: Path) -> bool:
    """True if the whole file is UTF-8 text; many times faster than reading lines."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened(path) as file:
        try:
            refuse_binary(path, file.peek(8))
            for raw in chain(iter(lambda: file.read(_BLOCK), b""), [b""]):
                decoder.decode(raw, final=not raw)
        except (UnicodeDecodeError, UserError):
            return False
    return True


def _report_broken(path: Path, number: int, column: int, error: UnicodeDecodeError) -> None:
    found = UserError(
        f"{path}, line {number}, byte {column} of the line: not UTF-8",
        got=f"byte {error.object[error.start]:#04x} ({error.reason})",
        hint="save the file as UTF-8",
    )
    report_fault(found, NOT_UTF8)


def _check_few(path: Path, faults: int) -> None:
    if faults >= _MANY:
        raise UserError(f"{path} has {_MANY:,} or more faults", hint="reading stopped: is it really a text file?")


def _at_a_space(text: str) -> tuple[str, str]:
    """Split a part of a long line at its last space: return the text, and the rest for the next part."""
    head, space, tail = text.rpartition(" ")
    return (head, tail) if space else (text, "")


def by_line(path: Path, source: Iterable[Line]) -> Iterator[Passage]:
    begins = True
    for line in source:
        begins |= line.fresh
        if line.text:
            yield Passage(line.text, begins, line.read)
            begins = False


def by_blank(path: Path, source: Iterable[Line]) -> Iterator[Passage]:
    begins = True
    for line in source:
        if line.text:
            yield Passage(line.text, begins, line.read)
        begins = not line.text


def by_doc(path: Path, source: Iterable[Line]) -> Iterator[Passage]:
    """Read the <doc> blocks of Wikipedia extractors; the title in the first line is an ordinary sentence."""
    begins, inside = True, False
    for line in source:
        text = line.text
        if line.fresh and text.startswith(("<doc ", "<doc>")):
            begins, inside, text = True, True, text.partition(">")[2]
        closes = text.endswith("</doc>")
        if text := text.removesuffix("</doc>").strip():
            if not inside:
                outside = UserError(
                    f"{path}, line {line.number}: text outside of <doc> ... </doc>",
                    got=text[:60],
                    hint='set how the documents are separated: documents="blank", "line" or "file"',
                )
                report_fault(outside)
                inside = True  # one fault for all text up to the next block
            yield Passage(text, begins, line.read)
            begins = False
        inside &= not closes


def by_file(path: Path, source: Iterable[Line]) -> Iterator[Passage]:
    """Read paragraphs, which end at blank lines; wrapped lines are joined."""
    begins, paragraph = True, list[Line]()
    for line in chain(source, [Line(0, "", True, 0)]):
        if line.text:
            paragraph.append(line)
        if paragraph and (not line.text or len(line.text) >= _WRAPPED.stop or len(paragraph) == _PARAGRAPH):
            texts = [member.text for member in paragraph]
            for text in [" ".join(texts)] if is_wrapped(texts) else texts:
                yield Passage(text, begins, paragraph[-1].read)
                begins = False
            paragraph.clear()


def by_record(path: Path, source: Iterable[Line]) -> Iterator[Passage]:
    broken = 0
    for line in source:
        found = attempt(_field, path, line) if line.text else ""
        broken += found is None
        _check_few(path, broken)
        texts = [text.strip() for text in (found or "").splitlines() if text.strip()]
        yield from (Passage(text, place == 0, line.read) for place, text in enumerate(texts))


def _field(path: Path, line: Line) -> str:
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}, line {line.number}: not JSON", got=str(error)) from None
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        got = sorted(record) if isinstance(record, dict) else type(record).__name__
        raise UserError(f"{path}, line {line.number}: no document", expected='{"text": "..."}', got=got)
    text = cast(str, record["text"])
    return text if text.isascii() else text.encode(errors="replace").decode()  # JSON can contain a lone surrogate
