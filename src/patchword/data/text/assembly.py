"""From encoded texts to what a model reads: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP]; cut, or in windows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from patchword.data.text.batches import IGNORE, Examples
from patchword.data.text.pieces import Encoding
from patchword.data.text.ragged import Ragged
from patchword.data.text.tokenizer import Tokenizer

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Limit:
    """length: tokens a model reads at once, the special ones included. stride: 0 cuts a longer text off; otherwise it
    is read in windows that begin so many tokens apart."""

    length: int
    stride: int = 0

    def starts(self, tokens: int, room: int) -> list[int]:
        """where the windows of a text begin"""
        if tokens <= room or not self.stride:
            return [0]
        return list(range(0, tokens - room + min(self.stride, room), min(self.stride, room)))


def sentences(
    tokenizer: Tokenizer, name: str, texts: Sequence[str], pairs: Sequence[str] | None, limit: Limit
) -> Examples:
    """Single texts, or pairs of texts of which the longer is cut first."""
    first = tokenizer.ids_of(texts)
    second = None if pairs is None else tokenizer.ids_of(pairs)
    rows: list[Ids] = []
    segments: list[Ids] = []
    owner, shortened, windowed = [], 0, 0
    for number, ids in enumerate(first):
        other = None if second is None else second[number]
        room = limit.length - (2 if other is None else 3)
        if other is None:
            starts = limit.starts(len(ids), room)
            windows: list[tuple[Ids, Ids | None]] = [(ids[start : start + room], None) for start in starts]
            shortened += len(ids) > room and len(starts) == 1
            windowed += len(starts) > 1
        else:
            shortened += len(ids) + len(other) > room
            windows = [fitted(ids, other, room)]
        for left, right in windows:
            row, segment = joined(tokenizer, left, right)
            rows.append(row)
            segments.append(segment)
            owner.append(number)
    return collected(tokenizer, name, rows, segments, owner, shortened=shortened, windowed=windowed)


def fitted(first: Ids, second: Ids, room: int) -> tuple[Ids, Ids]:
    """Both, so much of the longer cut off that they fit."""
    over = max(0, len(first) + len(second) - room)
    difference = abs(len(first) - len(second))
    from_longer = min(over, difference) + (max(0, over - difference) + 1) // 2
    from_shorter = over - from_longer
    cut_first, cut_second = (from_longer, from_shorter) if len(first) >= len(second) else (from_shorter, from_longer)
    return first[: len(first) - cut_first], second[: len(second) - cut_second]


def joined(tokenizer: Tokenizer, first: Ids, second: Ids | None = None) -> tuple[Ids, Ids]:
    """The ids with the special tokens between them, and the segment of each."""
    cls, sep = tokenizer.cls, tokenizer.sep
    parts = [[cls], first, [sep]] if second is None else [[cls], first, [sep], second, [sep]]
    ids = np.concatenate([np.asarray(part, np.int32) for part in parts])
    segments = np.zeros(len(ids), np.int32)
    segments[len(first) + 2 :] = 1
    return ids, segments


def words(
    tokenizer: Tokenizer,
    name: str,
    sentences: Sequence[Sequence[str]],
    tags: Sequence[Sequence[int]] | None,
    length: int,
) -> tuple[Examples, Ragged]:
    """Sentences of words, each word tagged at its first piece; a long sentence is continued in another text.

    Also answers, for each token, the number of the word that begins there, IGNORE elsewhere.
    """
    pieces: list[tuple[Ids, Ids, Ids, Ids]] = []
    owner, windowed = [], 0
    for number, found in enumerate(tokenizer.encode_words(sentences)):
        stretches = _stretches(found, length - 2)
        windowed += len(stretches) > 1
        for start, end in stretches:
            row, segment = joined(tokenizer, found.ids[start:end])
            begun = np.full(len(row), IGNORE, np.int32)
            first = np.diff(found.words[:end], prepend=-1)[start:] != 0
            begun[1:-1][first] = found.words[start:end][first]
            target = begun.copy()
            if tags is not None:
                target[begun != IGNORE] = np.asarray(tags[number], np.int32)[begun[begun != IGNORE]]
            pieces.append((row, segment, target, begun))
            owner.append(number)
    rows, segments, targets, words = zip(*pieces, strict=True)
    examples = collected(tokenizer, name, rows, segments, owner, windowed=windowed)
    return replace(examples, targets=Ragged.of(targets)), Ragged.of(words)


def _stretches(found: Encoding, room: int) -> list[tuple[int, int]]:
    """A sentence in parts of at most `room` tokens that begin with a word; a word of more tokens is cut."""
    starts = np.flatnonzero(np.diff(found.words, prepend=-1) != 0)
    parts, begin = [], 0
    while len(found.ids) - begin > room:
        fitting = starts[(starts > begin) & (starts <= begin + room)]
        end = int(fitting[-1]) if len(fitting) else begin + room
        parts.append((begin, end))
        begin = end
    return [*parts, (begin, len(found.ids))]


def collected(
    tokenizer: Tokenizer,
    name: str,
    rows: Sequence[Ids],
    segments: Sequence[Ids],
    owner: Sequence[int],
    *,
    shortened: int = 0,
    windowed: int = 0,
) -> Examples:
    ids = Ragged.of(rows)
    unknown = float((ids.values == tokenizer.unknown).float().mean())
    owners = torch.tensor(owner)
    kinds = Ragged.of(segments, torch.uint8)
    return Examples(name, ids, kinds, owners, shortened=shortened, windowed=windowed, unknown=unknown)
