"""Texts through the `tokenizers` library into arrays, in bounded memory."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers
from numpy.typing import NDArray

_PART = 100_000  # characters of a text that are encoded at once
_TOGETHER = 2_000_000  # characters of all texts given to the library at once; a token takes it hundreds of bytes
_HALVES = re.compile("[\ud800-\udfff]")  # of a character, which Python can hold and UTF-8 cannot

# Where a text may be cut without changing a piece: before one of these.
SPACES = re.compile("[ \t\n\r]")  # other white space is a control character to BERT, which removes it
BERT_PLACE = re.compile(
    r"[ \t\n\r!-/:-@\[-`{-~、。，！？一-鿿]"
)  # also marks and Chinese characters, words by themselves
ANY_PLACE = re.compile(r"(?<=[^\W_]) (?=[^\W_])")  # a space between words belongs to the second, if to any


@dataclass(frozen=True)
class Encoding:
    """The pieces of one text: ids, the characters [start, end) each stands for, and the number of its word."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    words: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)


def mended(text: str) -> str:
    """Half a character becomes U+FFFD, which is as long, and which BERT passes over."""
    return _HALVES.sub("\ufffd", text)


def parts_of(text: str, place: re.Pattern[str], limit: int = _PART) -> list[tuple[int, str]]:
    """The text in parts of at least `limit` characters, each with its start, cut where no word is cut."""
    parts, start = [], 0
    while found := place.search(text, start + limit):
        parts.append((start, text[start : found.start()]))
        start = found.start()
    return [*parts, (start, text[start:])]


def encoded(library: tokenizers.Tokenizer, texts: Sequence[str], place: re.Pattern[str]) -> list[Encoding]:
    found: list[list[Encoding]] = [[] for _ in texts]
    for batch in _batches(texts, place):
        answers = library.encode_batch([part for _, _, part in batch], add_special_tokens=False)
        for (owner, start, part), answer in zip(batch, answers, strict=True):
            found[owner].append(_arrays(answer, part, start))
    return [_joined(parts) for parts in found]


def ids_of(library: tokenizers.Tokenizer, texts: Sequence[str], place: re.Pattern[str]) -> list[NDArray[np.int32]]:
    found: list[list[NDArray[np.int32]]] = [[] for _ in texts]
    for batch in _batches(texts, place):
        answers = library.encode_batch_fast([part for _, _, part in batch], add_special_tokens=False)
        for (owner, _, _), answer in zip(batch, answers, strict=True):
            found[owner].append(np.array(answer.ids, np.int32))
    return [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in found]


def encoded_words(
    library: tokenizers.Tokenizer, sentences: Sequence[Sequence[str]], unknown: int, spaced: bool = False
) -> list[Encoding]:
    """Every word has a piece: the unknown one where the library finds none.

    spaced: a word but the first has a space in front, as it would in running text.
    """
    whole = [
        [f" {word}" if spaced and place else word for place, word in enumerate(map(mended, sentence))]
        for sentence in sentences
    ]
    answers = library.encode_batch(whole, is_pretokenized=True, add_special_tokens=False)
    return [
        _with_unknown(_within_words(answer, spaced), sentence, unknown)
        for answer, sentence in zip(answers, sentences, strict=True)
    ]


def _within_words(answer: tokenizers.Encoding, spaced: bool) -> Encoding:
    """Places count from the word's first letter, not from the space in front of it."""
    spans = np.array(answer.offsets, np.int32).reshape(-1, 2).T
    words = np.array(answer.word_ids, np.int32)
    spans = np.maximum(spans - (words > 0), 0).astype(np.int32) if spaced else spans
    return Encoding(np.array(answer.ids, np.int32), spans[0], spans[1], words)


def _with_unknown(found: Encoding, sentence: Sequence[str], unknown: int) -> Encoding:
    lost = np.setdiff1d(np.arange(len(sentence), dtype=np.int32), found.words)
    if not len(lost):
        return found
    places = np.searchsorted(found.words, lost)
    lengths = [len(sentence[word]) for word in lost]
    values = ((found.ids, unknown), (found.starts, 0), (found.ends, lengths), (found.words, lost))
    return Encoding(*(np.insert(array, places, value) for array, value in values))


def _batches(texts: Sequence[str], place: re.Pattern[str]) -> Iterator[list[tuple[int, int, str]]]:
    """(number of the text, start of the part, part), a bounded number of characters at a time"""
    batch: list[tuple[int, int, str]] = []
    size = 0
    for owner, text in enumerate(texts):
        for start, part in parts_of(mended(text), place):
            if batch and size + len(part) > _TOGETHER:
                yield batch
                batch, size = [], 0
            batch.append((owner, start, part))
            size += len(part)
    if batch:
        yield batch


def _arrays(answer: tokenizers.Encoding, part: str, start: int) -> Encoding:
    first, last = np.array(answer.offsets, np.int32).reshape(-1, 2).T
    first = _behind_spaces(first, last, part) + np.int32(start)
    return Encoding(np.array(answer.ids, np.int32), first, last + np.int32(start), np.array(answer.word_ids, np.int32))


def _behind_spaces(first: NDArray[np.int32], last: NDArray[np.int32], part: str) -> NDArray[np.int32]:
    """Where pieces begin without the spaces that some kinds carry in front of a word."""
    spaces = np.append(np.frombuffer(part.encode("utf-32-le"), np.uint32) == ord(" "), False)
    if not spaces[first].any():
        return first
    places = np.where(spaces, len(part), np.arange(len(spaces), dtype=np.int32))
    following = np.minimum.accumulate(places[::-1])[::-1].astype(np.int32)
    found: NDArray[np.int32] = np.minimum(following[first], last)
    return found


def _joined(parts: list[Encoding]) -> Encoding:
    if len(parts) == 1:
        return parts[0]
    counts = [int(part.words[-1]) + 1 if len(part) else 0 for part in parts]
    shifts = np.cumsum([0, *counts[:-1]], dtype=np.int32)
    words = [part.words + shift for part, shift in zip(parts, shifts, strict=True)]
    arrays = ([part.ids for part in parts], [part.starts for part in parts], [part.ends for part in parts], words)
    return Encoding(*(np.concatenate(array) for array in arrays))
