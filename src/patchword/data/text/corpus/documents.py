"""Documents out of text files: the ways in which people write many of them into one file."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, cast, get_args

from patchword.core.errors import UserError, nearest
from patchword.data.faults import attempt, doubt, give_up, tell
from patchword.data.shards.manifest import is_sharded, text_shards
from patchword.data.text.formats import passages as readers
from patchword.data.text.formats.passages import Passage, is_wrapped, lines, opened

Form = Literal["line", "blank", "doc", "file", "jsonl"]
FORMS: dict[Form, str] = {
    "line": "one document a line",
    "blank": "documents between blank lines",
    "doc": "documents in <doc> ... </doc>",
    "file": "one document a file",
    "jsonl": "one JSON record a line, the document in its field text",
}
RECORDS: tuple[Form, ...] = ("doc", "jsonl")  # text of these can be UTF-8 and wrong all the same
_IN_FOLDERS = {"", ".txt", ".text", ".md", ".jsonl", ".ndjson"}  # Wikipedia extractors write names without an ending
_JSON = {".jsonl", ".ndjson"}
_HEAD = 2**18  # bytes looked at to tell the form
_PART = 2**20  # bytes of a line held at once
_READERS = {
    "line": readers.by_line,
    "blank": readers.by_blank,
    "doc": readers.by_doc,
    "file": readers.by_file,
    "jsonl": readers.by_record,
}


@dataclass(frozen=True)
class Source:
    """A text file as it was when it was first read."""

    path: str
    form: Form
    size: int
    changed: int  # nanoseconds
    digest: str


def text_files(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Files as they are, folders by all texts in them, sorted: the order of a corpus is that of its names."""
    found: dict[Path, Path] = {}  # with the name each is sorted by: of a shard, wherever it lies, the one in its set
    missing = [path for path in paths if not (path.is_dir() or path.is_file())]
    for path in missing:
        tell(UserError(f"there is no file or folder {path}"), "a file or folder that is not there")
    for path in paths:
        if path.is_dir():
            found |= (
                _shards(path) if is_sharded(path) else {file: file for file in path.rglob("*") if _is_text(file, path)}
            )
        elif path not in missing:
            found[path] = path
    if not found and missing:
        give_up()
    if not found:
        places = ", ".join(map(str, paths)) or "nothing"
        raise UserError(
            "no text files", expected=f"files, or folders with {', '.join(sorted(_IN_FOLDERS)[1:])} files", got=places
        )
    for path in sorted(found):
        if not path.stat().st_size:
            doubt("a file without text", str(path))
    return tuple(sorted(found, key=found.__getitem__))


def _is_text(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in _IN_FOLDERS and not hidden and path.is_file()


def _shards(folder: Path) -> dict[Path, Path]:
    """The files of a corpus in shards; any that is missing or cut short is told."""
    return {path: folder / path.name for path in text_shards(folder)}


def form_of(path: Path, documents: str = "auto") -> Form:
    """How a file holds its documents: as asked for, or read off its name and its beginning.

    JSON lines are known by the name (.jsonl, .ndjson) or the first record, <doc> blocks by the first line. Markdown,
    and text whose lines are wrapped, is one document; other text with blank lines has its documents between them;
    else each line is one.
    """
    if documents not in ("auto", *get_args(Form)):
        raise UserError("documents", expected=["auto", *FORMS], got=documents, hint=nearest(documents, FORMS))
    if path.suffix.lower() in _JSON:
        return "jsonl"
    return _looks_like(path) if documents == "auto" else cast(Form, documents)


def _looks_like(path: Path) -> Form:
    with opened(path) as file:
        head = file.read(_HEAD).decode("utf-8-sig", errors="replace").strip().split("\n")
    if head[0].startswith(("<doc ", "<doc>")):
        return "doc"
    if head[0].startswith("{") and '"text"' in head[0]:
        return "jsonl"
    blocks = [list(block) for filled, block in groupby(head, lambda line: bool(line.strip())) if filled]
    if path.suffix.lower() == ".md" or sum(map(is_wrapped, blocks)) > len(blocks) / 2:
        return "file"
    return "blank" if len(blocks) > 1 else "line"


def passages(path: Path, form: Form) -> Iterator[Passage]:
    """The passages of a file in their order. A record of JSON is held whole; other lines in parts, if they are long."""
    try:
        yield from _READERS[form](path, lines(path, part=-1 if form == "jsonl" else _PART))
    except UserError as error:
        tell(error)


def examine(files: Sequence[Path], documents: str = "auto") -> int:
    """Reads every file to its end, keeps nothing, and answers how many documents there are.

    For a report (data/faults.py), which then has all that is wrong with any line of any file.
    """
    forms = {path: attempt(form_of, path, documents) for path in files}
    found = (passages(path, form) for path, form in forms.items() if form is not None)
    return sum(passage.begins for some in found for passage in some)


def sources_of(files: Sequence[Path], documents: str, known: Sequence[Source] = ()) -> tuple[Source, ...]:
    """With the digest of each; a file that has its known size and time of change is not read again."""
    before = {(source.path, source.size, source.changed): source.digest for source in known}
    found = (attempt(_source, path.absolute(), documents, before) for path in files)
    return tuple(source for source in found if source is not None)


def _source(path: Path, documents: str, known: dict[tuple[str, int, int], str]) -> Source:
    state = path.stat()
    place = (str(path), state.st_size, state.st_mtime_ns)
    return Source(str(path), form_of(path, documents), *place[1:], known.get(place) or digest(path))


def check_unchanged(sources: Sequence[Source]) -> None:
    for source in sources:
        state = Path(source.path).stat()
        if (state.st_size, state.st_mtime_ns) != (source.size, source.changed):
            raise UserError(f"{source.path} changed while it was read", hint="try again when it is finished")


def digest(path: Path) -> str:
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
