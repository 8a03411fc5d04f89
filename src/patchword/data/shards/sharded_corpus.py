"""A tokenised corpus of text shards: the tokens of each shard are cached next to it, on its disk, and read in place.

The offsets of sentences and documents are joined in the first folder. The result equals the corpus of the same texts in
one file: the same tokens in the same order.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import RecoverableError
from patchword.core.files import whole_file, write_json
from patchword.data.progress import Progress, no_progress
from patchword.data.shards.manifest import text_shards
from patchword.data.shards.open_files import OpenFiles
from patchword.data.text.corpus.cache_shards import CorpusTokenizer
from patchword.data.text.corpus.documents import digest
from patchword.data.text.corpus.token_cache import build_cache, locked
from patchword.data.text.corpus.tokenized_corpus import (
    Corpus,
    Manifest,
    complete_manifest,
    mapped_offsets,
    part_file,
    token_dtype,
)

_OFFSETS = ("sentences", "documents")


class ShardedTokens:
    """Tokens in several files, indexed like one array. Nothing is kept in memory; few files are open."""

    def __init__(self, files: Sequence[Path], counts: Sequence[int], kind: type[np.unsignedinteger[Any]]) -> None:
        self._files, self._type = OpenFiles(partial(_found, files, counts, kind)), np.dtype(kind)
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    @property
    def nbytes(self) -> int:
        return int(self._starts[-1]) * self._type.itemsize

    def __getitem__(self, index: "slice | NDArray[np.int64]") -> NDArray[Any]:
        """Index with a slice or an index array; consecutive indices are read at once."""
        wanted = np.arange(*index.indices(int(self._starts[-1]))) if isinstance(index, slice) else index
        found = np.empty(len(wanted), self._type)
        owner = np.searchsorted(self._starts, wanted, "right") - 1
        breaks = (np.diff(wanted) != 1) | (np.diff(owner) != 0)
        begins = np.concatenate([[0], np.flatnonzero(breaks) + 1])[: len(wanted)]
        ends = np.concatenate([begins[1:], [len(wanted)]])[: len(begins)]
        files = self._files.take(dict.fromkeys(owner[begins].tolist()))
        width = self._type.itemsize
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            number = int(owner[begin])
            place = int(wanted[begin] - self._starts[number])
            found[begin:end] = np.frombuffer(files[number].read(place * width, (end - begin) * width), self._type)
        return found


def _found(files: Sequence[Path], counts: Sequence[int], kind: type[np.unsignedinteger[Any]], number: int) -> Path:
    path, size = files[number], counts[number] * np.dtype(kind).itemsize
    if not path.is_file() or path.stat().st_size != size:
        what = f"the token file {path} is missing or truncated"
        raise RecoverableError(what, expected=f"{size:,} bytes", hint="mount its disk again")
    return path


def build_sharded_corpus(folder: Path, tokenizer: CorpusTokenizer, progress: Progress = no_progress) -> Corpus:
    """Return the corpus of the shards in a folder, tokenised now or earlier; resumable like every cache."""
    shards = text_shards(folder)
    sizes = [path.stat().st_size for path in shards]
    name = f"tokens-{tokenizer.fingerprint()[:16]}"
    caches = [path.parent / name / path.stem for path in shards]
    parts = list[Manifest]()
    for number, (path, cache) in enumerate(zip(shards, caches, strict=True)):
        report_part = partial(_report_part, progress, sum(sizes[:number]), sum(sizes))
        parts.append(build_cache([path], tokenizer, cache, "auto", report_part).manifest)
    joined = folder / name / "joined"
    with locked(joined):
        manifest = _join_offsets(joined, caches, parts)
    tokens, counts = [part_file(cache, "tokens") for cache in caches], [part.tokens for part in parts]
    spread = ShardedTokens(tokens, counts, token_dtype(manifest.vocabulary))
    return Corpus(manifest, spread, *(mapped_offsets(joined, part) for part in _OFFSETS))


def _report_part(progress: Progress, before: int, total: int, done: int, of: int) -> None:
    progress(before + done, total)


def _join_offsets(folder: Path, caches: Sequence[Path], parts: Sequence[Manifest]) -> Manifest:
    """Join the offsets of all shards and write them once."""
    key = hashlib.sha256("\n".join(part.key for part in parts).encode()).hexdigest()
    before = complete_manifest(folder, _OFFSETS)
    if before is not None and before.key == key:
        return before
    (folder / "manifest.json").unlink(missing_ok=True)
    for name, shifts in (("sentences", [part.tokens for part in parts]), ("documents", [p.sentences for p in parts])):
        with whole_file(part_file(folder, name)) as temporary, temporary.open("wb") as file:
            file.write(np.zeros(1, np.int64).tobytes())
            for shift, cache in zip(np.cumsum([0, *shifts[:-1]]), caches, strict=True):
                file.write((mapped_offsets(cache, name)[1:] + shift).tobytes())
    manifest = Manifest(
        key,
        parts[0].vocabulary,
        documents=sum(part.documents for part in parts),
        sentences=sum(part.sentences for part in parts),
        tokens=sum(part.tokens for part in parts),
        unknown=sum(part.unknown for part in parts),
        seconds=round(sum(part.seconds for part in parts), 3),
        digests={part: digest(part_file(folder, part)) for part in _OFFSETS},
        sources=(),
    )
    write_json(folder / "manifest.json", asdict(manifest))
    return manifest
