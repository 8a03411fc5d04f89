"""Texts that are the same but for case, spaces, punctuation and Unicode forms, or but for a few words."""

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import TypeAlias

import numpy as np

Runs: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]

_BETWEEN = re.compile(r"[\W_]+")
_SHORTEST = 20  # characters; shorter texts are often equal by chance


def normalized_text(key: Hashable) -> str:
    """Return what is left of a text, or of several, in lower case without spaces and punctuation; "" if it is short.

    >>> normalized_text(("A film to see -- twice!",)), normalized_text("Good!")
    ('afilmtoseetwice', '')
    """
    parts = key if isinstance(key, tuple) else (key,)
    joined = " ".join(str(part) for part in dict.fromkeys(parts))
    if len(joined) < _SHORTEST:
        return ""
    return _BETWEEN.sub("", unicodedata.normalize("NFKC", joined).casefold())


class SimilarTexts:
    """Many texts, each with its place, among which `find` finds one that shares most runs of three words with another.

    A text has eight numbers, each the least over all of its runs after other mixing; of two texts that share 7 of 10
    runs, two or more numbers are equal in all but 13 of 10,000 cases (MinHash; Broder, 1997). Such texts are compared
    by the runs themselves.
    """

    def __init__(self, texts: Iterable[tuple[Hashable, str]]) -> None:
        self._texts = list(texts)
        self._places: dict[int, list[int]] = {}
        for place, (key, _) in enumerate(self._texts):
            for number in _least(_runs(key)):
                places = self._places.setdefault(number, [])
                if len(places) < _CANDIDATES:
                    places.append(place)

    def find(self, key: Hashable) -> tuple[str, float] | None:
        """Return the place of the most similar text and the share of runs that both have; None if it is below 0.7."""
        runs = _runs(key)
        equal = Counter(place for number in _least(runs) for place in self._places.get(number, ()))
        candidates = [place for place, numbers in equal.items() if numbers >= _EQUAL]
        shares = [(_shared(runs, _runs(self._texts[place][0])), -place) for place in candidates]
        share, place = max(shares, default=(0.0, 0))
        return (self._texts[-place][1], share) if share >= _SIMILAR else None


_WORD = re.compile("[\u3400-\u9fff]|[^\\W_\u3400-\u9fff]+")  # a Chinese character is a word
_FEWEST = 10  # words; shorter texts are often similar by chance
_SIMILAR = 0.7  # one changed word of 20 leaves 0.71 of the runs, one of 50 leaves 0.88
_EQUAL = 2  # numbers; one is often that of a phrase that many texts have
_CANDIDATES = 8  # texts per number; boilerplate has many
_MIXERS = np.random.default_rng(0).integers(1 << 63, size=11, dtype=np.uint64) * 2 + 1
_WITHIN, _BETWEEN_RUNS = _MIXERS[:3], _MIXERS[3:, None]


def _runs(key: Hashable) -> Runs:
    """Return one number per different run of three words of a text, or of several; none of a short text."""
    joined = " ".join(str(part) for part in dict.fromkeys(key if isinstance(key, tuple) else (key,)))
    words = _WORD.findall(unicodedata.normalize("NFKC", joined).casefold())
    if len(words) < _FEWEST:
        return np.zeros(0, np.uint64)
    numbers = np.fromiter(map(_number, words), np.uint64, len(words))
    return np.unique(numbers[:-2] * _WITHIN[0] + numbers[1:-1] * _WITHIN[1] + numbers[2:] * _WITHIN[2])


@lru_cache(1 << 17)
def _number(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def _least(runs: Runs) -> list[int]:
    if not len(runs):
        return []
    mixed = (runs ^ (runs >> np.uint64(29))) * _BETWEEN_RUNS
    return [int(number) for number in (mixed ^ (mixed >> np.uint64(32))).min(1)]


def _shared(first: Runs, second: Runs) -> float:
    both = len(np.intersect1d(first, second, assume_unique=True))
    return both / max(1, len(first) + len(second) - both)
