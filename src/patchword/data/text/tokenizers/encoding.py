"""Encode texts into arrays with the `tokenizers` library, in bounded memory."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import tokenizers
from numpy.typing import NDArray

from patchword.core.errors import UserError

ALLOWING = "PATCHWORD_CHARACTERS"  # in the environment
CHARACTERS = int(os.environ.get(ALLOWING) or 2_000_000)  # maximum of a text that is read whole: a second or two
_PART = 100_000  # characters of a text per call
_TOGETHER = 2_000_000  # characters of all texts per call of the library, which uses hundreds of bytes per token
_SURROGATES = re.compile("[\ud800-\udfff]")  # lone surrogates: Python strings can contain them, UTF-8 cannot

# A long text is split before one of these, where a split changes no token.
SPACE_BREAK = re.compile("[ \t\n\r]")  # BERT removes other white space as control characters
BERT_BREAK = re.compile(
    r"[ \t\n\r!-/:-@\[-`{-~、。，！？一-鿿]"
)  # also punctuation and Chinese characters, which are words of their own
WORD_BREAK = re.compile(
    r"(?<=[^\W_]) (?=[^\W_])"
)  # a space between two words, which belongs to the second one if to any


@dataclass(frozen=True)
class Encoding:
    """The tokens of one text: their ids, character spans [start, end) and word indices."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    words: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)


def repair_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD, which has the same length and which BERT ignores."""
    return _SURROGATES.sub("\ufffd", text)


def split_text(text: str, place: re.Pattern[str], limit: int = _PART) -> list[tuple[int, str]]:
    """Split a text at break points into parts of at least `limit` characters; return (start, part) pairs."""
    return list(_parts(text, place, limit))


def _parts(text: str, place: re.Pattern[str], limit: int) -> Iterator[tuple[int, str]]:
    start = 0
    while found := place.search(text, start + limit):
        yield start, text[start : found.start()]
        start = found.start()
    yield start, text[start:]


def check_lengths(texts: Sequence[str]) -> None:
    """Raise an error if a text that is to be read whole is too long for that."""
    longest = max(map(len, texts), default=0)
    if longest > CHARACTERS:
        raise _too_long("a text is too long to be read whole", longest)


def encoded(library: tokenizers.Tokenizer, texts: Sequence[str], place: re.Pattern[str]) -> list[Encoding]:
    check_lengths(texts)
    found: list[list[Encoding]] = [[] for _ in texts]
    for batch in _batches(texts, place):
        with _library_errors():
            answers = library.encode_batch([part for _, _, part in batch], add_special_tokens=False)
        for (owner, start, part), answer in zip(batch, answers, strict=True):
            found[owner].append(_arrays(answer, part, start))
    return [_joined(parts) for parts in found]


def ids_of(
    library: tokenizers.Tokenizer, texts: Sequence[str], place: re.Pattern[str], enough: int | None = None
) -> list[NDArray[np.int32]]:
    """Return the ids of texts. enough: if given, the ids of a very long text may end after this many."""
    if enough is not None:
        texts = [text if len(text) <= _PART else _beginning(library, text, place, enough) for text in texts]
    found: list[list[NDArray[np.int32]]] = [[] for _ in texts]
    for batch in _batches(texts, place):
        with _library_errors():
            answers = library.encode_batch_fast([part for _, _, part in batch], add_special_tokens=False)
        for (owner, _, _), answer in zip(batch, answers, strict=True):
            found[owner].append(np.array(answer.ids, np.int32))
    return [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in found]


def encoded_words(
    library: tokenizers.Tokenizer, sentences: Sequence[Sequence[str]], unknown: int, spaced: bool = False
) -> list[Encoding]:
    """Encode sentences of words. Every word gets a token: the unknown one if the library returns none.

    spaced: prepend a space to every word except the first, as in running text.
    """
    whole = [
        [f" {word}" if spaced and place else word for place, word in enumerate(map(repair_surrogates, sentence))]
        for sentence in sentences
    ]
    with _library_errors():
        answers = library.encode_batch(whole, is_pretokenized=True, add_special_tokens=False)
    return [
        _with_unknown(_within_words(answer, spaced), sentence, unknown)
        for answer, sentence in zip(answers, sentences, strict=True)
    ]


def _within_words(answer: tokenizers.Encoding, spaced: bool) -> Encoding:
    """Convert the result; spans count from the first letter of the word, not from the space before it."""
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


def _beginning(library: tokenizers.Tokenizer, text: str, place: re.Pattern[str], enough: int) -> str:
    """Return the beginning of a long text that has at least this many tokens, or all of it."""
    count = 0
    for start, part in _parts(repair_surrogates(text), place, _PART):
        if len(part) > CHARACTERS:
            raise _too_long("a text has no space for too many characters", len(part))
        with _library_errors():
            count += len(library.encode_batch_fast([part], add_special_tokens=False)[0].ids)
        if count >= enough:
            return text[: start + len(part)]
    return text


def _too_long(what: str, characters: int) -> UserError:
    hint = f"shorten it, or allow more: {ALLOWING}={characters} patchword ..."
    return UserError(what, expected=f"at most {CHARACTERS:,} characters", got=f"{characters:,}", hint=hint)


@contextmanager
def _library_errors() -> Iterator[None]:
    """Turn what the library raises into an error of the tokenizer: a regular expression of its own may fail."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException" and type(error) is not Exception:
            raise
        raise UserError("the tokenizer cannot split this text", got=str(error)[:200]) from None


def _batches(texts: Sequence[str], place: re.Pattern[str]) -> Iterator[list[tuple[int, int, str]]]:
    """Yield lists of (text index, start of the part, part) with a bounded number of characters."""
    batch: list[tuple[int, int, str]] = []
    size = 0
    for owner, text in enumerate(texts):
        for start, part in split_text(repair_surrogates(text), place):
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
    """Move the starts of tokens past the spaces that some tokenizers keep at the front of a word."""
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
