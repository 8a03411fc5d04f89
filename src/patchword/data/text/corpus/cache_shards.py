"""Shards of a token cache: a few megabytes of text each, tokenised and written atomically.

A shard is a file of arrays and a small JSON record, which is written after it and holds the digest of the shard and the
key of its cache. A shard is used only if both agree, so a shard that a kill left half-written is never used.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from patchword.core.errors import UserError
from patchword.core.files import read_json, whole_file, write_json
from patchword.data.text.corpus.documents import TextSource, digest, passages
from patchword.data.text.corpus.sentences import sentences
from patchword.data.text.corpus.tokenized_corpus import token_dtype
from patchword.data.text.formats.passages import Passage

_WITHOUT_SPACE = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")  # Chinese and Japanese
_SENTENCES_PER_CALL = 4096  # sentences per call of the tokenizer


class CorpusTokenizer(Protocol):
    """The part of a tokenizer's interface that a cache uses."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def unknown(self) -> int | None: ...
    @property
    def spaced(self) -> bool: ...
    def ids_of(self, texts: Sequence[str]) -> Sequence[NDArray[Any]]: ...
    def fingerprint(self) -> str: ...


@dataclass(frozen=True)
class Shard:
    """Consecutive passages; `read` is the number of bytes of the whole text up to their end."""

    number: int
    passages: tuple[Passage, ...]
    read: int


@dataclass(frozen=True)
class ShardRecord:
    """The content of the JSON record of a shard."""

    key: str
    digest: str
    tokens: int
    unknown: int
    seconds: float


def split_into_shards(sources: Iterable[TextSource], size: int) -> Iterator[Shard]:
    """Split the concatenated texts into shards; a shard ends after the passage that reaches `size` bytes."""
    number, before, start, held = 0, 0, 0, list[Passage]()
    for source in sources:
        for passage in passages(Path(source.path), source.form):
            held.append(passage)
            if before + passage.read - start >= size:
                start = before + passage.read
                yield Shard(number, tuple(held), start)
                number += 1
                held.clear()
        before += source.size
    if held:
        yield Shard(number, tuple(held), before)


def shard_file(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05d}.safetensors"


def complete_shard(path: Path, key: str) -> ShardRecord | None:
    """Return the record of a shard if the shard is complete and belongs to this cache, else None."""
    try:
        label = ShardRecord(**read_json(path.with_suffix(".json")))
        return label if label.key == key and digest(path) == label.digest else None
    except (UserError, TypeError, OSError):
        return None


def write_shard(
    path: Path, shard: Shard, tokenizer: CorpusTokenizer, key: str, progress: Callable[[float], None]
) -> ShardRecord:
    """Tokenise a shard and write three arrays.

    tokens: the concatenated tokens. sentences: the end of each sentence. documents: the first sentence of each
    document.
    progress: called with the fraction of the shard that is done.
    """
    started = time.monotonic()
    split = [sentences(passage.text) for passage in shard.passages]
    texts = _with_spaces(split, shard.passages) if tokenizer.spaced else list(chain.from_iterable(split))
    tokens, lengths = _tokenised(texts, tokenizer, progress)
    before = np.cumsum([0, *map(len, split[:-1])])  # sentences before each passage
    begins = before[np.array([passage.begins for passage in shard.passages])]
    kept = np.concatenate([[0], np.cumsum(lengths > 0)])  # sentences without tokens are dropped
    arrays = {"tokens": tokens, "sentences": np.cumsum(lengths[lengths > 0]), "documents": kept[begins]}
    unknown = int((tokens == tokenizer.unknown).sum()) if tokenizer.unknown is not None else 0
    with whole_file(path) as temporary:
        temporary.write_bytes(save(arrays))
        label = ShardRecord(key, digest(temporary), len(tokens), unknown, round(time.monotonic() - started, 3))
    write_json(path.with_suffix(".json"), asdict(label))
    return label


def read_shard(path: Path) -> dict[str, NDArray[Any]]:
    return load_file(path)


def remove_shards(folder: Path) -> None:
    for path in folder.glob("shard-*.*"):
        path.unlink()


def _with_spaces(split: Sequence[Sequence[str]], passages: Sequence[Passage]) -> list[str]:
    """Prepend the space that a sentence has in running text, except to a document's first sentence and to Chinese."""
    return [
        sentence if (passage.begins and not place) or _WITHOUT_SPACE.match(sentence) else f" {sentence}"
        for sentences, passage in zip(split, passages, strict=True)
        for place, sentence in enumerate(sentences)
    ]


def _tokenised(
    texts: Sequence[str], tokenizer: CorpusTokenizer, progress: Callable[[float], None]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    found = [np.zeros(0, token_dtype(tokenizer.vocabulary))]
    lengths = list[int]()
    for start in range(0, len(texts), _SENTENCES_PER_CALL):
        ids = tokenizer.ids_of(texts[start : start + _SENTENCES_PER_CALL])
        found.append(np.concatenate(ids).astype(found[0].dtype))
        lengths += map(len, ids)
        progress(min(1.0, (start + _SENTENCES_PER_CALL) / len(texts)))
    return np.concatenate(found), np.array(lengths, np.int64)
