"""The parts a token cache is made of: some megabytes of text each, tokenised, written whole or not at all.

A shard is a file of arrays and a small JSON file beside it, written after it, which holds its digest and the key of
the cache it belongs to. A shard counts only when both agree, so that one a kill left half-written never does.
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
from patchword.data.text.corpus.documents import Source, digest, passages
from patchword.data.text.corpus.sentences import sentences
from patchword.data.text.corpus.tokenized_corpus import token_type
from patchword.data.text.formats.passages import Passage

_WITHOUT_SPACE = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")  # Chinese and Japanese
_TOGETHER = 4096  # sentences given to the tokenizer at once


class Encoder(Protocol):
    """What a cache needs of a tokenizer."""

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
    """Passages up to `read` bytes of the whole text."""

    number: int
    passages: tuple[Passage, ...]
    read: int


@dataclass(frozen=True)
class Label:
    """What the small file beside a shard says."""

    key: str
    digest: str
    tokens: int
    unknown: int
    seconds: float


def cut(sources: Iterable[Source], size: int) -> Iterator[Shard]:
    """The texts in a row, cut behind the first passage that fills `size` bytes."""
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


def whole_shard(path: Path, key: str) -> Label | None:
    """The label of a shard that is whole and of this cache."""
    try:
        label = Label(**read_json(path.with_suffix(".json")))
        return label if label.key == key and digest(path) == label.digest else None
    except (UserError, TypeError, OSError):
        return None


def write_shard(path: Path, shard: Shard, tokenizer: Encoder, key: str, told: Callable[[float], None]) -> Label:
    """tokens: all of them in a row. sentences: where each ends. documents: the sentences at which one begins.

    `told` hears which share of the shard is done.
    """
    started = time.monotonic()
    split = [sentences(passage.text) for passage in shard.passages]
    texts = _running(split, shard.passages) if tokenizer.spaced else list(chain.from_iterable(split))
    tokens, lengths = _tokenised(texts, tokenizer, told)
    before = np.cumsum([0, *map(len, split[:-1])])  # sentences in front of each passage
    begins = before[np.array([passage.begins for passage in shard.passages])]
    kept = np.concatenate([[0], np.cumsum(lengths > 0)])  # a sentence of which nothing is left is dropped
    arrays = {"tokens": tokens, "sentences": np.cumsum(lengths[lengths > 0]), "documents": kept[begins]}
    unknown = int((tokens == tokenizer.unknown).sum()) if tokenizer.unknown is not None else 0
    with whole_file(path) as temporary:
        temporary.write_bytes(save(arrays))
        label = Label(key, digest(temporary), len(tokens), unknown, round(time.monotonic() - started, 3))
    write_json(path.with_suffix(".json"), asdict(label))
    return label


def read_shard(path: Path) -> dict[str, NDArray[Any]]:
    return load_file(path)


def remove_shards(folder: Path) -> None:
    for path in folder.glob("shard-*.*"):
        path.unlink()


def _running(split: Sequence[Sequence[str]], passages: Sequence[Passage]) -> list[str]:
    """Sentences with the space in front that they have in running text: all but a document's first, and Chinese."""
    return [
        sentence if (passage.begins and not place) or _WITHOUT_SPACE.match(sentence) else f" {sentence}"
        for sentences, passage in zip(split, passages, strict=True)
        for place, sentence in enumerate(sentences)
    ]


def _tokenised(
    texts: Sequence[str], tokenizer: Encoder, told: Callable[[float], None]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    found = [np.zeros(0, token_type(tokenizer.vocabulary))]
    lengths = list[int]()
    for start in range(0, len(texts), _TOGETHER):
        ids = tokenizer.ids_of(texts[start : start + _TOGETHER])
        found.append(np.concatenate(ids).astype(found[0].dtype))
        lengths += map(len, ids)
        told(min(1.0, (start + _TOGETHER) / len(texts)))
    return np.concatenate(found), np.array(lengths, np.int64)
