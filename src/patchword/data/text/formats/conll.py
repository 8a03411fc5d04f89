"""Tagged words: CoNLL, with one word per line in columns, and CoNLL-U of the Universal Dependencies."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from patchword.core.errors import UserError, nearest
from patchword.data.faults import report_fault
from patchword.data.text.formats.text_io import lines_of, read_utf8, require_file

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U
_WORD = re.compile(r"[0-9]+")
UNEQUAL = "a line with another number of columns"
_NO_WORD = re.compile(r"[0-9]+(-|\.)[0-9]+")  # 1-2 is a multiword token, 1.1 an empty node


@dataclass(frozen=True)
class Sentence:
    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int  # of its first word in the file
    lines: tuple[int, ...] = field(default=(), compare=False)  # of each word
    column: str = field(default="", compare=False)  # of its tags, as error messages name it


@dataclass(frozen=True)
class _Line:
    number: int
    cells: list[str]


def read_conll(path: Path, column: str | int | None = None) -> list[Sentence]:
    """Read tagged sentences.

    column: of the tags, counted from 1 (CoNLL default: the last), or its CoNLL-U name (upos).
    """
    require_file(path, (".conll", ".conllu"))
    universal = path.suffix.lower() == ".conllu"
    blocks = _blocks(_universal_lines(path) if universal else _conll_lines(path))
    sentences: list[Sentence] = []
    first: _Line | None = None
    for block in blocks:
        first = first or block[0]
        word, place = 1 if universal else 0, _tag_place(path, column, first, universal)
        sound = [line for line in block if _is_sound(path, line, first, (word, place))]
        if len(sound) < len(block):
            continue
        words, tags = (tuple(line.cells[cell] for line in block) for cell in (word, place))
        lines = tuple(line.number for line in block)
        sentences.append(Sentence(words, tags, lines[0], lines, _called(place, universal)))
    if not sentences:
        raise UserError(
            f"{path} has no sentences", expected="one word and its tag per line, a blank line between sentences"
        )
    if all(tag == "_" for sentence in sentences for tag in sentence.tags):
        what = f"{path}, {sentences[0].column}: the column of the tags is blank"
        raise UserError(what, got="_ for every word", hint="choose another column: label=NUMBER")
    return sentences


def _called(place: int, universal: bool) -> str:
    return f"column {place + 1}" + (f" ({COLUMNS[place]})" if universal else "")


def check_tags(path: Path, sentences: Iterable[Sentence], known: Collection[str]) -> None:
    """Report tags that are not in the training data."""
    for sentence in sentences:
        for number, (word, tag) in enumerate(zip(sentence.words, sentence.tags, strict=True)):
            if tag not in known:
                line = sentence.lines[number] if sentence.lines else sentence.line
                where = ", ".join(filter(None, (f"{path}, line {line}", sentence.column, f"word {word!r}")))
                hint = f"{nearest(tag, known)}\nif the tags are in another column, set it: label=NUMBER"
                error = UserError(f"{where}: the tag {tag!r} is not one of the known tags", hint=hint)
                report_fault(error, "a tag that is not one of the known tags")


def _conll_lines(path: Path) -> Iterator[_Line]:
    """Split lines at tabs, or at spaces if there is no tab; a word may contain other white space."""
    for number, line in enumerate(lines_of(read_utf8(path)), 1):
        text = line.rstrip("\r\n").strip(" ")
        cells = [cell.strip(" ") for cell in text.split("\t")] if "\t" in text else re.split(" +", text)
        if cells[0] == "-DOCSTART-" or not text.strip():
            cells = []
        yield _Line(number, cells)


def _universal_lines(path: Path) -> Iterator[_Line]:
    for number, line in enumerate(lines_of(read_utf8(path)), 1):
        cells = line.rstrip("\r\n").split("\t") if line.strip() else []
        if line.startswith("#") or (cells and _NO_WORD.fullmatch(cells[0])):
            continue
        if cells and len(cells) != len(COLUMNS):
            report_fault(_unequal(path, number, f"{len(COLUMNS)} columns between tabs", len(cells)), UNEQUAL)
            continue
        if cells and not _WORD.fullmatch(cells[0]):
            where = f"{path}, line {number}, column 1"
            report_fault(
                UserError(where, expected="the index of the word", got=repr(cells[0])), "a word without its index"
            )
            continue
        yield _Line(number, cells)


def _blocks(lines: Iterable[_Line]) -> Iterator[list[_Line]]:
    """Yield the groups of lines between blank lines."""
    block: list[_Line] = []
    for line in lines:
        if line.cells:
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _tag_place(path: Path, column: str | int | None, first: _Line, universal: bool) -> int:
    """Return the column of the tags, counted from 0."""
    count = len(first.cells)
    if universal and (column is None or str(column) in COLUMNS):
        return COLUMNS.index(str(column or "upos"))
    if column is None and count > 1:
        return count - 1
    if str(column).isdecimal() and 2 <= int(str(column)) <= count:
        return int(str(column)) - 1
    names = f", or one of {', '.join(COLUMNS)}" if universal else ""
    raise UserError(
        f"{path}, line {first.number}: there is no column of tags",
        expected=f"a column between 2 and {count}{names}" if count > 1 else "a word and its tag",
        got=f"{count} {'column' if count == 1 else 'columns'}" if column is None else repr(column),
        hint=nearest(str(column), COLUMNS) if universal else "",
    )


def _is_sound(path: Path, line: _Line, first: _Line, needed: tuple[int, int]) -> bool:
    if len(line.cells) != len(first.cells):
        expected = f"{len(first.cells)} columns as on line {first.number}"
        report_fault(_unequal(path, line.number, expected, len(line.cells)), UNEQUAL)
        return False
    empty = [cell + 1 for cell in needed if not line.cells[cell].strip()]
    for cell in empty:
        where = f"{path}, line {line.number}, column {cell} is empty"
        report_fault(UserError(where, expected="a word and its tag"), "a word or a tag is missing")
    return not empty


def _unequal(path: Path, line: int, expected: str, count: int) -> UserError:
    return UserError(
        f"{path}, line {line}: wrong number of columns",
        expected=expected,
        got=count,
        hint="a blank line ends a sentence",
    )
