"""A cache of tokenised texts: tokenised once, kept in a folder, read through memory maps.

`build_cache` writes shard by shard, joins the shards into three files and writes the manifest last. If the process is
killed, the same call resumes with the complete shards. A cache of other texts, another tokenizer or another document
format is rebuilt. If another process builds the cache, the call waits for it. Open corpora stay readable meanwhile:
files are replaced and never modified.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.files import make_folder, remove_temporary_files, whole_file, write_json
from patchword.data.faults import collect_faults, give_up
from patchword.data.progress import Progress, no_progress
from patchword.data.text.corpus.cache_shards import (
    CorpusTokenizer,
    ShardRecord,
    complete_shard,
    read_shard,
    remove_shards,
    shard_file,
    split_into_shards,
    write_shard,
)
from patchword.data.text.corpus.documents import (
    RECORDS,
    TextSource,
    check_unchanged,
    digest,
    examine,
    sources_of,
    text_files,
)
from patchword.data.text.corpus.tokenized_corpus import PARTS, Corpus, Manifest, complete_manifest, part_file
from patchword.data.text.formats.passages import is_sound

__all__ = ["SHARD", "Corpus", "build_cache"]

SHARD = 16 * 2**20  # bytes of text
_RULES = 1  # version of the cache: increased when documents, sentences or files are made differently


def build_cache(
    files: Sequence[Path],
    tokenizer: CorpusTokenizer,
    folder: Path,
    documents: str = "auto",
    progress: Progress = no_progress,
    shard: int = SHARD,
) -> Corpus:
    """Return the corpus of these files and folders, tokenised now or earlier.

    progress: called with bytes (done, total).
    """
    found = text_files(files)  # before anything is written
    with locked(folder):
        manifest = complete_manifest(folder)
        with collect_faults():
            sources = sources_of(found, documents, manifest.sources if manifest else ())
        key = _key(sources, tokenizer, shard)
        if manifest is None or manifest.key != key:
            _check(sources, documents)
            (folder / "manifest.json").unlink(missing_ok=True)
            remove_temporary_files(folder)
            labels = _make_shards(folder, sources, tokenizer, key, progress, shard)
            check_unchanged(sources)
            manifest = _join_shards(folder, sources, labels, tokenizer.vocabulary, key)
            write_json(folder / "manifest.json", asdict(manifest))
        remove_shards(folder)
        return Corpus.mapped(folder, manifest)


def _check(sources: Sequence[TextSource], documents: str) -> None:
    """Raise all faults of the texts as one error, before any time is spent on tokenising."""
    with collect_faults() as report:
        for source in sources:
            if source.form in RECORDS or not is_sound(Path(source.path)):
                examine([Path(source.path)], documents)
    if report.faults:  # an outer report collects them
        give_up()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process works on the folder. The operating system releases the lock if its owner dies."""
    make_folder(folder)
    with (folder / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _key(sources: Sequence[TextSource], tokenizer: CorpusTokenizer, shard: int) -> str:
    contents = [(source.form, source.digest) for source in sources]
    return hashlib.sha256(json.dumps([_RULES, tokenizer.fingerprint(), shard, contents]).encode()).hexdigest()


def _make_shards(
    folder: Path, sources: Sequence[TextSource], tokenizer: CorpusTokenizer, key: str, progress: Progress, size: int
) -> list[ShardRecord]:
    total, before, labels = sum(source.size for source in sources), 0, list[ShardRecord]()
    for shard in split_into_shards(sources, size):
        path = shard_file(folder, shard.number)
        report_part = partial(_report_part, progress, before, shard.read, total)
        labels.append(complete_shard(path, key) or write_shard(path, shard, tokenizer, key, report_part))
        before = shard.read
        report_part(1.0)
    return labels


def _report_part(progress: Progress, start: int, end: int, total: int, fraction: float) -> None:
    progress(start + int(fraction * (end - start)), total)


def _join_shards(
    folder: Path, sources: tuple[TextSource, ...], labels: Sequence[ShardRecord], vocabulary: int, key: str
) -> Manifest:
    """Concatenate the shards into the files of the corpus. A document may continue in the next shard."""
    tokens, sentences, begins = 0, 0, list[NDArray[np.int64]]()
    with whole_file(part_file(folder, "tokens")) as one, whole_file(part_file(folder, "sentences")) as other:
        with one.open("wb") as token_file, other.open("wb") as sentence_file:
            sentence_file.write(np.zeros(1, np.int64).tobytes())
            for number in range(len(labels)):
                arrays = read_shard(shard_file(folder, number))
                token_file.write(arrays["tokens"].tobytes())
                sentence_file.write((arrays["sentences"] + tokens).tobytes())
                begins.append(arrays["documents"] + sentences)
                tokens, sentences = tokens + len(arrays["tokens"]), sentences + len(arrays["sentences"])
        if tokens == 0:
            raise UserError("no text in " + ", ".join(source.path for source in sources[:3]))
    offsets = np.unique(np.concatenate([*begins, [sentences]]))  # documents without sentences are dropped
    with whole_file(part_file(folder, "documents")) as temporary:
        temporary.write_bytes(offsets.tobytes())
    return Manifest(
        key,
        vocabulary,
        documents=len(offsets) - 1,
        sentences=sentences,
        tokens=tokens,
        unknown=sum(label.unknown for label in labels),
        seconds=round(sum(label.seconds for label in labels), 3),
        digests={part: digest(part_file(folder, part)) for part in PARTS},
        sources=sources,
    )
