"""Read documents from text files, in each of the common formats for several documents per file."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, cast, get_args

from patchword.core.errors import UserError, nearest
from patchword.data.faults import attempt, give_up, report_fault, warn
from patchword.data.shards.manifest import is_sharded, text_shards
from patchword.data.text.formats import passages as readers
from patchword.data.text.formats.passages import Passage, is_wrapped, lines, opened

DocumentFormat = Literal["line", "blank", "doc", "file", "jsonl"]
DOCUMENT_FORMATS: dict[DocumentFormat, str] = {
    "line": "one document per line",
    "blank": "documents between blank lines",
    "doc": "documents in <doc> ... </doc>",
    "file": "one document per file",
    "jsonl": "one JSON object per line, with the document in its field text",
}
RECORDS: tuple[DocumentFormat, ...] = ("doc", "jsonl")  # formats in which valid UTF-8 can still be a fault
_IN_FOLDERS = {
    "",
    ".txt",
    ".text",
    ".md",
    ".jsonl",
    ".ndjson",
}  # Wikipedia extractors write file names without a suffix
_JSON = {".jsonl", ".ndjson"}
_HEAD = 2**18  # bytes read to detect the format
_PART = 2**20  # bytes of a line that are in memory at once
_READERS = {
    "line": readers.by_line,
    "blank": readers.by_blank,
    "doc": readers.by_doc,
    "file": readers.by_file,
    "jsonl": readers.by_record,
}


@dataclass(frozen=True)
class TextSource:
    """The state of a text file when it was first read. changed: modification time in nanoseconds."""

    path: str
    form: DocumentFormat
    size: int
    changed: int  # nanoseconds
    digest: str


def text_files(paths: Sequence[Path]) -> tuple[Path, ...]:
    """List the given files and the text files of the given folders, sorted by name: the order of the corpus."""
    found: dict[Path, Path] = {}  # file -> sort key; a shard is sorted as if it were in the folder of its set
    missing = [path for path in paths if not (path.is_dir() or path.is_file())]
    for path in missing:
        report_fault(UserError(f"there is no file or folder {path}"), "a missing file or folder")
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
            warn("an empty file", str(path))
    return tuple(sorted(found, key=found.__getitem__))


def _is_text(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in _IN_FOLDERS and not hidden and path.is_file()


def _shards(folder: Path) -> dict[Path, Path]:
    """List the files of a corpus in shards; missing or truncated ones are reported."""
    return {path: folder / path.name for path in text_shards(folder)}


def document_format(path: Path, documents: str = "auto") -> DocumentFormat:
    """Return the document format of a file: the given one, or with "auto" the one detected from its name and beginning.

    JSON lines are detected by the name (.jsonl, .ndjson) or the first record, <doc> blocks by the first line. Markdown
    and text with wrapped lines is one document per file. In other text, blank lines separate documents; without blank
    lines each line is a document. A CSV file is refused: its header, labels and commas are no text.
    """
    if documents not in ("auto", *get_args(DocumentFormat)):
        raise UserError(
            "documents", expected=["auto", *DOCUMENT_FORMATS], got=documents, hint=nearest(documents, DOCUMENT_FORMATS)
        )
    if path.suffix.lower() in _JSON:
        return "jsonl"
    if documents == "auto" and path.suffix.lower() == ".csv":
        hint = "save its column of texts as a .txt file, one text per line, or as .jsonl with the field text"
        raise UserError(f"{path} is a table", expected="text or JSON lines", hint=hint)
    return _detect_format(path) if documents == "auto" else cast(DocumentFormat, documents)


def _detect_format(path: Path) -> DocumentFormat:
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


def passages(path: Path, form: DocumentFormat) -> Iterator[Passage]:
    """Yield the passages of a file in order. A JSON record is read whole; other long lines are read in parts."""
    try:
        yield from _READERS[form](path, lines(path, part=-1 if form == "jsonl" else _PART))
    except UserError as error:
        report_fault(error)


def examine(files: Sequence[Path], documents: str = "auto") -> int:
    """Read every file to its end and return the number of documents.

    Inside `one_report()` this collects the faults of every line of every file.
    """
    forms = {path: attempt(document_format, path, documents) for path in files}
    found = (passages(path, form) for path, form in forms.items() if form is not None)
    return sum(passage.begins for some in found for passage in some)


def sources_of(files: Sequence[Path], documents: str, known: Sequence[TextSource] = ()) -> tuple[TextSource, ...]:
    """Describe the files, with digests; a file whose size and modification time are known is not read again."""
    before = {(source.path, source.size, source.changed): source.digest for source in known}
    found = (attempt(_text_source, path.absolute(), documents, before) for path in files)
    return tuple(source for source in found if source is not None)


def _text_source(path: Path, documents: str, known: dict[tuple[str, int, int], str]) -> TextSource:
    state = path.stat()
    place = (str(path), state.st_size, state.st_mtime_ns)
    return TextSource(str(path), document_format(path, documents), *place[1:], known.get(place) or digest(path))


def check_unchanged(sources: Sequence[TextSource]) -> None:
    for source in sources:
        state = Path(source.path).stat()
        if (state.st_size, state.st_mtime_ns) != (source.size, source.changed):
            raise UserError(f"{source.path} changed while it was read", hint="try again when nothing writes to it")


def digest(path: Path) -> str:
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
