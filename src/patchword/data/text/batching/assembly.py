"""Assemble model inputs from encoded texts: add special tokens, truncate, or split into windows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from patchword.data.text.batching.batches import IGNORE, Examples
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.tokenizers.encoding import Encoding, check_lengths
from patchword.data.text.tokenizers.template import Ids
from patchword.data.text.tokenizers.tokenizer import Tokenizer

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class Limit:
    """The maximum length of an example.

    length: maximum number of tokens, with special tokens. stride: 0 truncates longer texts; otherwise they are split
    into windows that begin `stride` tokens apart.
    """

    length: int
    stride: int = 0

    def starts(self, tokens: int, room: int) -> list[int]:
        """Return the starts of the windows of a text. room: tokens that fit into a window."""
        if tokens <= room or not self.stride:
            return [0]
        return list(range(0, tokens - room + min(self.stride, room), min(self.stride, room)))


def sentences(
    tokenizer: Tokenizer, name: str, texts: Sequence[str], pairs: Sequence[str] | None, limit: Limit
) -> Examples:
    """Build examples of single texts, or of pairs whose longer text is truncated first."""
    if limit.stride:
        check_lengths([*texts, *(pairs or ())])
    enough = None if limit.stride else limit.length + 1
    encoded = tokenizer.ids_of(texts, enough)
    if pairs is not None:
        return _paired(tokenizer, name, encoded, tokenizer.ids_of(pairs, enough), limit.length - tokenizer.frame.paired)
    room = limit.length - tokenizer.frame.single
    starts = [limit.starts(len(ids), room) for ids in encoded]
    made = [
        add_special_tokens(tokenizer, ids[start : start + room])
        for ids, begins in zip(encoded, starts, strict=True)
        for start in begins
    ]
    owner = [number for number, begins in enumerate(starts) for _ in begins]
    windowed = sum(len(begins) > 1 for begins in starts)
    shortened = sum(len(ids) > room and len(begins) == 1 for ids, begins in zip(encoded, starts, strict=True))
    return collect(tokenizer, name, made, owner, shortened=shortened, windowed=windowed)


def _paired(tokenizer: Tokenizer, name: str, first: Sequence[Ids], second: Sequence[Ids], room: int) -> Examples:
    lengths = [np.array([len(ids) for ids in side]) for side in (first, second)]
    kept = zip(*(side.tolist() for side in truncated_lengths(lengths[0], lengths[1], room)), strict=True)
    made = [
        add_special_tokens(tokenizer, left[:ours], right[:theirs])
        for left, right, (ours, theirs) in zip(first, second, kept, strict=True)
    ]
    shortened = int((lengths[0] + lengths[1] > room).sum())
    return collect(tokenizer, name, made, range(len(made)), shortened=shortened)


def truncated_lengths(first: Lengths, second: Lengths, room: int) -> tuple[Lengths, Lengths]:
    """Return the lengths of two texts after truncating the longer one to fit; the second one if equal, as in BERT."""
    half = room // 2
    return (
        np.minimum(first, np.maximum(room - half, room - second)),
        np.minimum(second, np.maximum(half, room - first)),
    )


def add_special_tokens(tokenizer: Tokenizer, first: Ids, second: Ids | None = None) -> tuple[Ids, Ids]:
    """Add special tokens; return ids and segments. An empty text without special tokens gets one placeholder token."""
    ids, segments = tokenizer.frame.around(first, second)
    return (ids, segments) if len(ids) else (np.array([tokenizer.placeholder], np.int32), np.zeros(1, np.int32))


def words(
    tokenizer: Tokenizer,
    name: str,
    sentences: Sequence[Sequence[str]],
    tags: Sequence[Sequence[int]] | None,
    length: int,
) -> tuple[Examples, Ragged]:
    """Build examples of tagged words. The first token of a word has its tag; a long sentence continues in a new
    example.

    Also returns, per token, the index of the word that begins there, IGNORE elsewhere.
    """
    pieces: list[tuple[Ids, Ids, Ids, Ids]] = []
    frame, owner, windowed = tokenizer.frame, list[int](), 0
    for number, found in enumerate(tokenizer.encode_words(sentences)):
        stretches = _stretches(found, length - frame.single)
        windowed += len(stretches) > 1
        for start, end in stretches:
            row, segment = add_special_tokens(tokenizer, found.ids[start:end])
            begun = np.full(len(row), IGNORE, np.int32)
            first = np.diff(found.words[:end], prepend=-1)[start:] != 0
            begun[len(frame.before) + np.flatnonzero(first)] = found.words[start:end][first]
            target = begun.copy()
            if tags is not None:
                target[begun != IGNORE] = np.asarray(tags[number], np.int32)[begun[begun != IGNORE]]
            pieces.append((row, segment, target, begun))
            owner.append(number)
    examples = collect(tokenizer, name, [piece[:2] for piece in pieces], owner, windowed=windowed)
    targets, words = (Ragged.of([piece[part] for piece in pieces]) for part in (2, 3))
    return replace(examples, targets=targets), words


def _stretches(found: Encoding, room: int) -> list[tuple[int, int]]:
    """Split a sentence before words into parts of at most `room` tokens; a longer word is split."""
    starts = np.flatnonzero(np.diff(found.words, prepend=-1) != 0)
    parts, begin = [], 0
    while len(found.ids) - begin > room:
        fitting = starts[(starts > begin) & (starts <= begin + room)]
        end = int(fitting[-1]) if len(fitting) else begin + room
        parts.append((begin, end))
        begin = end
    return [*parts, (begin, len(found.ids))]


def collect(
    tokenizer: Tokenizer,
    name: str,
    texts: Sequence[tuple[Ids, Ids]],
    owner: Sequence[int],
    *,
    shortened: int = 0,
    windowed: int = 0,
) -> Examples:
    """Collect examples. texts: ids and segments of each, as returned by `joined`."""
    ids = Ragged.of([text for text, _ in texts])
    lost = () if tokenizer.unknown is None else (tokenizer.unknown,)
    unknown = float(torch.isin(ids.values, torch.tensor(lost, dtype=ids.values.dtype)).float().mean())
    segments = Ragged.of([segment for _, segment in texts], torch.uint8)
    owners = torch.tensor(owner)
    return Examples(name, ids, segments, owners, shortened=shortened, windowed=windowed, unknown=unknown)
