"""Phrases and names ("units") of a text, which ERNIE masks as a whole (Sun et al., 2019).

Chinese has no spaces between words: a segmenter finds them, or the user gives them as a list or with a separator.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.data.text.corpus.word_spans import Span, is_whole_word
from patchword.data.text.formats.text_io import lines_of, read_utf8
from patchword.data.text.tokenizers.encoding import Encoding


def segment(text: str) -> list[str]:
    """Segment a Chinese text into words, white space and punctuation; joined, they are the text again."""
    try:
        import rjieba
    except ImportError:
        raise UserError(
            "the word segmentation of Chinese texts needs the package rjieba",
            hint="pip install 'patchword[zh]', or give the units as a file",
        ) from None
    return list(rjieba.cut(text))


def units(text: str) -> list[Span]:
    """Return the character spans of the words of a Chinese text, without white space."""
    return placed(segment(text))


def placed(words: Iterable[str]) -> list[Span]:
    """Return the spans of words in the text that they form when joined, without white space."""
    found, start = list[Span](), 0
    for word in words:
        if word.strip():
            found.append((start, start + len(word)))
        start += len(word)
    return found


def separated(text: str, separator: str) -> tuple[str, list[Span]]:
    """Remove the separators between units; return the text and the spans of its units."""
    if not separator:
        raise UserError("the separator of units is empty", expected="one or more characters")
    words = text.split(separator)
    return "".join(words), placed(words)


@dataclass(frozen=True)
class UnitList:
    """A given list of units, such as names. At each position the longest matching unit is taken."""

    units: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> "UnitList":
        """Read one unit per line; empty lines are skipped."""
        found = tuple(dict.fromkeys(unit for line in lines_of(read_utf8(path)) if (unit := line.strip())))
        if not found:
            raise UserError(f"{path} is empty", expected="one unit per line")
        return cls(found)

    def places(self, text: str) -> list[Span]:
        """Return the spans of the listed units in a text; a match inside a longer word does not count."""
        found, start = list[Span](), 0
        while match := self._firsts.search(text, start):
            place = match.start()
            ends = (end for size in self._sizes[match[0]] if (end := place + size) <= len(text))
            whole = (end for end in ends if text[place:end] in self._known and is_whole_word(text, place, end))
            end = next(whole, 0)
            if end:
                found.append((place, end))
            start = end or place + 1
        return found

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.units)

    @cached_property
    def _sizes(self) -> dict[str, list[int]]:
        """Map a first letter to the lengths of the units that begin with it, the longest first."""
        found: dict[str, set[int]] = {}
        for unit in self.units:
            found.setdefault(unit[0], set()).add(len(unit))
        return {letter: sorted(sizes, reverse=True) for letter, sizes in found.items()}

    @cached_property
    def _firsts(self) -> re.Pattern[str]:
        return re.compile(f"[{re.escape(''.join(sorted(self._sizes)))}]")


def unit_numbers(found: Encoding, places: Sequence[Span]) -> NDArray[np.int32]:
    """Number the units of the tokens from 0; outside of all units, each word is a unit.

    A token belongs to the unit in which it begins.
    """
    starts, ends = np.array(places, np.int64).reshape(-1, 2).T
    unit = np.searchsorted(starts, found.starts, side="right") - 1
    outside = (unit < 0) | (found.starts >= np.append(ends, 0)[unit])
    keys = np.stack([np.where(outside, -1, unit), np.where(outside, found.words, 0)])
    changes = (np.diff(keys, axis=1) != 0).any(0)
    return np.concatenate([np.zeros(min(1, len(found)), np.int32), np.cumsum(changes, dtype=np.int32)])
