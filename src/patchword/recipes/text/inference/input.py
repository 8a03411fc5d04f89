"""Reads the input texts of a trained model: from the command line, from files, or from standard input."""

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.data.text.formats.readable_rows import readable_rows
from patchword.data.text.formats.tables import TableFormat
from patchword.data.text.formats.text_io import check_characters, lines_of, read_utf8

TABLES = (".csv", ".tsv", ".jsonl")
FILES = (*TABLES, ".txt", ".conll", ".conllu", ".json")
PIPE = "-"


@dataclass(frozen=True)
class TextInput:
    """A text, an optional second text or question, and its origin.

    words: of a text that is already split into words; the text then has a space between them.
    error: why this row of a file cannot be read; the text is then empty.
    """

    text: str
    pair: str | None = None
    place: dict[str, Any] = field(default_factory=dict)  # file, line, id; nothing if it was typed
    words: tuple[str, ...] = ()
    error: UserError | None = None


@dataclass(frozen=True)
class Columns:
    """Columns of a table. quoted: whether cells of a .tsv file can be in quotation marks; those of GLUE cannot.

    header: the names of the columns, for files without a header line.
    """

    text: str = "text"
    pair: str = ""
    quoted: bool = True
    header: tuple[str, ...] = ()

    def form(self, path: Path) -> TableFormat:
        found = TableFormat.of(path)
        if found.kind != "tsv" or self.quoted:
            return found
        named = not self.header or self.text in next(lines_of(read_utf8(path)), "").rstrip("\r\n").split("\t")
        return TableFormat("tsv", quoted=False, header=() if named else self.header)


def read_texts(inputs: Sequence[str], columns: Columns = Columns()) -> list[TextInput]:
    """Read the inputs: each is a file, "-" for standard input, or a text; without inputs, standard input is read."""
    found = list(read_each(inputs or [piped()], columns))
    for one in found:
        if one.error is not None:
            raise one.error
    return found


def read_each(inputs: Sequence[str], columns: Columns = Columns()) -> Iterator[TextInput]:
    """Yield the inputs as `read_texts` does; a row of a file that cannot be read is an input with an error."""
    for word in inputs:
        yield from _read(word, columns)


def piped() -> str:
    """Return "-" if standard input is piped."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UserError("nothing to read", expected="a text, a file, or texts on standard input")
    return PIPE


def file_of(word: str) -> Path | None:
    """Return the file that an input names, or None for a text. An input that looks like a file name must exist."""
    if not word.strip():
        raise UserError("the command line: the text is empty", expected="a text, or a file")
    try:
        if Path(word).is_file():
            return Path(word)
        is_folder = Path(word).is_dir()
    except OSError:  # longer than a file name can be
        return None
    if is_folder:
        raise UserError(f"{word} is a folder", expected=f"a text, or a file in {', '.join(FILES)}")
    if word.lower().endswith(FILES) and not any(letter.isspace() for letter in word):
        raise UserError(f"there is no file {word}", hint="an input of several words is read as a text")
    return None


def whole(word: str) -> TextInput:
    """Read an input as one text: the content of a file, standard input, or the text itself."""
    path = file_of(word) if word != PIPE else None
    place = {"file": str(path)} if path else {"file": "stdin"} if word == PIPE else {}
    text = read_utf8(path) if path else _stdin() if word == PIPE else word
    return TextInput(checked_text(text, str(place.get("file", "the command line"))), place=place)


def _read(word: str, columns: Columns) -> Iterator[TextInput]:
    path = file_of(word) if word != PIPE else None
    if word == PIPE:
        yield from _lines("stdin", _stdin(), bool(columns.pair))
    elif path is None:
        yield TextInput(checked_text(word, "the command line"))
    elif path.suffix.lower() in TABLES:
        yield from _rows(path, columns)
    else:
        yield from _lines(str(path), read_utf8(path), bool(columns.pair))


def _rows(path: Path, columns: Columns) -> Iterator[TextInput]:
    roles = {"text": columns.text, **({"pair": columns.pair} if columns.pair else {})}
    table, errors = readable_rows(path, roles, columns.form(path))
    pairs = table.columns.get("pair", [None] * len(table))
    rows = {
        line: TextInput(text, pair, {"file": str(path), "line": line})
        for text, pair, line in zip(table.columns["text"], pairs, table.lines, strict=True)
    }
    broken = {line: TextInput("", None, {"file": str(path), "line": line}, error=e) for line, e in errors.items()}
    yield from (row for _, row in sorted({**rows, **broken}.items()))


def _lines(name: str, text: str, paired: bool) -> Iterator[TextInput]:
    """Read one text per line; a pair has a tab between. Blank lines at the end are ignored."""
    for line, source in enumerate(lines_of(text.rstrip("\r\n \t")), 1):
        place = {"file": name, "line": line}
        try:
            first, second = texts_of_line(source.rstrip("\r\n"), f"{name}, line {line}", paired)
        except UserError as error:
            yield TextInput("", None, place, error=error)
        else:
            yield TextInput(first, second, place)
    if not text.strip():
        raise UserError(f"{name} is empty", expected="one text per line")


def texts_of_line(line: str, where: str, paired: bool) -> tuple[str, str | None]:
    """Return the texts of a line of a text file; a pair has a tab between."""
    first, tab, second = line.partition("\t") if paired else (line, "", "")
    if not line.strip():
        raise UserError(f"{where}: the text is empty", hint="remove the empty lines")
    if paired and not tab:
        raise UserError(f"{where}: there is no second text", expected="two texts with a tab between")
    return checked_text(first, where), checked_text(second, where) if paired else None


def checked_text(text: str, where: str) -> str:
    """Return the text; an empty one, or one with characters that cannot be encoded, is an error."""
    if not text.strip():
        raise UserError(f"{where}: the text is empty")
    return check_characters(text, where)


def _stdin() -> str:
    stream = getattr(sys.stdin, "buffer", None)
    if not isinstance(stream, io.BufferedIOBase):
        return sys.stdin.read()
    data = stream.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"stdin, line {line}: this is not UTF-8", got=f"0x{error.object[error.start]:02x}") from None
