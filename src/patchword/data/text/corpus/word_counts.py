"""Word counts of a text, the vocabulary made from them, and texts as word ids."""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Literal, cast, get_args

import numpy as np

from patchword.core.errors import UserError

Cut = Callable[[str], list[str]]
WordSplitting = Literal["words", "marks", "spaces"]
CUTTINGS: dict[WordSplitting, str] = {
    "words": "lower-case runs of letters and digits, without punctuation",
    "marks": "words as written, and every punctuation mark as a word",
    "spaces": "split at white space only, for text that is already tokenised",
}
END = -1  # marks the end of a sentence
_UNKNOWN = -2
_HELD = 2**20  # ids in memory before they are written to the file
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_WORD_OR_MARK = re.compile(rf"{_WORD.pattern}|[^\w\s]")


def word_splitter(name: str) -> Cut:
    if name not in get_args(WordSplitting):
        raise UserError("unknown 'cut' of text into words", expected=", ".join(CUTTINGS), got=name)
    ways: dict[WordSplitting, Cut] = {"words": _plain, "marks": _WORD_OR_MARK.findall, "spaces": str.split}
    return ways[cast(WordSplitting, name)]


def _plain(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class Vocabulary:
    """Words and their counts, (words,) int64, sorted by falling count, then alphabetically."""

    words: tuple[str, ...]
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @property
    def total(self) -> int:
        """Return the number of words of the text, without the rare ones."""
        return int(self.counts.sum())

    @classmethod
    def count(cls, texts: Iterable[str], cut: Cut, least: int = 5, most: int | None = None) -> "Vocabulary":
        """Count words and keep those with at least `least` occurrences; of these, the `most` frequent."""
        found = Counter[str]()
        for text in texts:
            found.update(cut(text))
        kept = sorted((item for item in found.items() if item[1] >= least), key=lambda item: (-item[1], item[0]))[:most]
        if len(kept) < 2:
            seen = f"{len(found):,} different words, {found.total():,} in all"
            raise UserError(
                "too little text for word vectors",
                expected=f"at least two words that occur {least} times",
                got=seen,
                hint="give more text, or keep rarer words",
            )
        return cls(tuple(word for word, _ in kept), np.array([count for _, count in kept], np.int64))


def number_words(texts: Iterable[str], cut: Cut, vocabulary: Vocabulary) -> np.ndarray:
    """Return (ids,) int32: the word ids of all sentences with END after each; rare words are dropped, as in word2vec.

    The ids are mapped from an unnamed temporary file, so the memory use does not grow with the text. The operating
    system removes the file when the last reader closes it.
    """
    with tempfile.TemporaryFile() as file:
        size = 0
        for part in _parts(texts, cut, vocabulary.numbers):
            file.write(part.tobytes())
            size += len(part)
        file.flush()
        return np.memmap(file, np.int32, "r", shape=(size,))


def _parts(texts: Iterable[str], cut: Cut, numbers: dict[str, int]) -> Iterator[np.ndarray]:
    held = list[int]()
    for text in texts:
        held.extend(map(numbers.get, cut(text), repeat(_UNKNOWN)))
        held.append(END)
        if len(held) >= _HELD:
            yield _known(held)
            held.clear()
    yield _known(held)


def _known(held: list[int]) -> np.ndarray:
    part = np.array(held, np.int32)
    known: np.ndarray = part[part != _UNKNOWN]
    return known
