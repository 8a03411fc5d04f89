"""Texts tokenised once, kept in a folder, and read through memory maps.

`build_cache` writes shard by shard, joins the shards into three files and writes the manifest last. After a kill at
any moment the same call goes on with the shards that are whole. A folder that holds the cache of other texts, of
another tokenizer or of another way to separate documents is made anew; one that another process works on is waited
for. What is open stays readable meanwhile: files are replaced, never changed.
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
from patchword.core.files import clear_litter, make_folder, whole_file, write_json
from patchword.data.faults import give_up, one_report
from patchword.data.progress import Progress, nothing
from patchword.data.text.corpus.cache_shards import (
    Encoder,
    Label,
    cut,
    read_shard,
    remove_shards,
    shard_file,
    whole_shard,
    write_shard,
)
from patchword.data.text.corpus.documents import (
    RECORDS,
    Source,
    check_unchanged,
    digest,
    examine,
    sources_of,
    text_files,
)
from patchword.data.text.corpus.tokenized_corpus import PARTS, Corpus, Manifest, part_file, whole_manifest
from patchword.data.text.formats.passages import is_sound

__all__ = ["SHARD", "Corpus", "build_cache"]

SHARD = 16 * 2**20  # bytes of text
_RULES = 1  # counts up whenever documents, sentences or the files come to be made differently


def build_cache(
    files: Sequence[Path],
    tokenizer: Encoder,
    folder: Path,
    documents: str = "auto",
    told: Progress = nothing,
    shard: int = SHARD,
) -> Corpus:
    """The corpus of these files and folders, tokenised now or before. `told` hears bytes done and bytes in all."""
    found = text_files(files)  # before anything is written
    with alone(folder):
        manifest = whole_manifest(folder)
        with one_report():
            sources = sources_of(found, documents, manifest.sources if manifest else ())
        key = _key(sources, tokenizer, shard)
        if manifest is None or manifest.key != key:
            _check(sources, documents)
            (folder / "manifest.json").unlink(missing_ok=True)
            clear_litter(folder)
            labels = _make_shards(folder, sources, tokenizer, key, told, shard)
            check_unchanged(sources)
            manifest = _joined(folder, sources, labels, tokenizer.vocabulary, key)
            write_json(folder / "manifest.json", asdict(manifest))
        remove_shards(folder)
        return Corpus.mapped(folder, manifest)


def _check(sources: Sequence[Source], documents: str) -> None:
    """All that is wrong with the texts, by file and line, is one error, before time is spent on any of them."""
    with one_report() as report:
        for source in sources:
            if source.form in RECORDS or not is_sound(Path(source.path)):
                examine([Path(source.path)], documents)
    if report.faults:  # of a report that goes on
        give_up()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Waits until no other process works on the folder. The system drops the lock when its holder dies."""
    make_folder(folder)
    with (folder / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _key(sources: Sequence[Source], tokenizer: Encoder, shard: int) -> str:
    contents = [(source.form, source.digest) for source in sources]
    return hashlib.sha256(json.dumps([_RULES, tokenizer.fingerprint(), shard, contents]).encode()).hexdigest()


def _make_shards(
    folder: Path, sources: Sequence[Source], tokenizer: Encoder, key: str, told: Progress, size: int
) -> list[Label]:
    total, before, labels = sum(source.size for source in sources), 0, list[Label]()
    for shard in cut(sources, size):
        path = shard_file(folder, shard.number)
        tell = partial(_tell, told, before, shard.read, total)
        labels.append(whole_shard(path, key) or write_shard(path, shard, tokenizer, key, tell))
        before = shard.read
        tell(1.0)
    return labels


def _tell(told: Progress, start: int, end: int, total: int, share: float) -> None:
    told(start + int(share * (end - start)), total)


def _joined(folder: Path, sources: tuple[Source, ...], labels: Sequence[Label], vocabulary: int, key: str) -> Manifest:
    """Shards behind one another. A document may begin in one and go on in the next."""
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
    offsets = np.unique(np.concatenate([*begins, [sentences]]))  # of documents of which something is left
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
