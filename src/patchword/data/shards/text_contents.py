"""Texts as contents of shards: .jsonl files with one document per line, in order."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from patchword.core.errors import UserError
from patchword.data.faults import attempt
from patchword.data.image.sources import IMAGE_SUFFIXES
from patchword.data.progress import Progress
from patchword.data.shards.folders import HashingFile, key_of
from patchword.data.shards.manifest import is_sharded
from patchword.data.shards.writing import Sample
from patchword.data.text.corpus.documents import document_format, passages, text_files

_TEXTS = {".txt", ".text", ".md", ".ndjson"}
LONGEST = 2**24  # maximum characters of a document; a longer one is split


@dataclass(frozen=True, eq=False)
class TextContents:
    """The documents of text files, to be written to shards."""

    name: str
    files: tuple[Path, ...]
    documents: str
    kind: Literal["texts"] = "texts"
    suffix: str = "jsonl"
    classes: tuple[str, ...] = ()

    @cached_property
    def total(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    @property
    def bytes(self) -> int:
        return self.total

    def key(self) -> str:
        states = ((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in self.files)
        return key_of(["texts", self.documents, *states])

    def check(self, progress: Progress) -> None:
        before = 0
        for file in self.files:
            attempt(self._read_through, file, before, progress)
            before += file.stat().st_size

    def _read_through(self, file: Path, before: int, progress: Progress) -> None:
        for passage in passages(file, document_format(file, self.documents)):
            progress(before + passage.read, self.total)

    def samples(self) -> Iterator[Sample]:
        before = 0
        for file in self.files:
            held, length, done = list[str](), 0, 0
            for passage in passages(file, document_format(file, self.documents)):
                if held and (passage.begins or length > LONGEST):
                    yield Sample(None, "\n".join(held), before + done)
                    held, length = [], 0
                held.append(passage.text)
                length, done = length + len(passage.text), passage.read
            before += file.stat().st_size
            if held:
                yield Sample(None, "\n".join(held), before)

    def open_writer(self, file: HashingFile) -> "JsonLinesWriter":
        return JsonLinesWriter(file)


@dataclass(frozen=True)
class JsonLinesWriter:
    file: HashingFile

    def add(self, content: str) -> None:
        self.file.write(json.dumps({"text": content}, ensure_ascii=False).encode() + b"\n")

    def close(self) -> dict[str, Any]:
        return {}


def text_contents(path: Path, documents: str = "auto") -> TextContents:
    if path.is_dir() and is_sharded(path):
        raise UserError(f"{path} is already in shards")
    return TextContents(path.stem, text_files([path]), documents)


def holds_texts(path: Path) -> bool:
    """True if a path has texts and not images or a table of images, judged by suffixes and the first record."""
    if path.is_dir():
        files = (file.suffix.lower() for file in path.rglob("*") if file.is_file())
        kinds = {"texts" if suffix in {*_TEXTS, ".jsonl"} else suffix for suffix in files}
        return "texts" in kinds and not kinds & IMAGE_SUFFIXES
    if path.suffix.lower() == ".jsonl" and path.is_file():
        with path.open("rb") as file:
            return b'"text"' in file.readline(10_000)
    return path.suffix.lower() in _TEXTS
