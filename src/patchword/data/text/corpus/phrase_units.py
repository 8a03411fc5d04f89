"""Units of a text that belong together, as phrases and names do: what ERNIE masks as a whole (Sun et al., 2019).

Chinese has no spaces between words: a segmenter finds them, or the user gives them, as a list or by a mark between.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.data.text.corpus.word_spans import Place, stands_alone
from patchword.data.text.formats.text_io import lines_of, read_utf8
from patchword.data.text.tokenizers.encoding import Encoding


def cut(text: str) -> list[str]:
    """The words of a Chinese text, with white space and marks as words of their own; together they are the text."""
    try:
        import rjieba
    except ImportError:
        raise UserError(
            "finding the words of Chinese texts needs rjieba",
            hint="pip install 'patchword[zh]', or give the units as a file",
        ) from None
    return list(rjieba.cut(text))


def units(text: str) -> list[Place]:
    """The words of a Chinese text as places, white space left out."""
    return placed(cut(text))


def placed(words: Iterable[str]) -> list[Place]:
    """Where words stand in the text that they make up, white space left out."""
    found, start = list[Place](), 0
    for word in words:
        if word.strip():
            found.append((start, start + len(word)))
        start += len(word)
    return found


def separated(text: str, separator: str) -> tuple[str, list[Place]]:
    """A text with a mark between its units: the text without the marks, and the places of the units in it."""
    if not separator:
        raise UserError("the mark between units is empty")
    words = text.split(separator)
    return "".join(words), placed(words)


@dataclass(frozen=True)
class UnitList:
    """Units that are known beforehand, such as names. Where several could begin, the longest does."""

    units: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> "UnitList":
        """One unit a line; empty lines are passed over."""
        found = tuple(dict.fromkeys(unit for line in lines_of(read_utf8(path)) if (unit := line.strip())))
        if not found:
            raise UserError(f"{path} is empty", expected="one unit a line")
        return cls(found)

    def places(self, text: str) -> list[Place]:
        """Where units of the list stand; as a part of a longer word none does."""
        found, start = list[Place](), 0
        while match := self._firsts.search(text, start):
            place = match.start()
            ends = (end for size in self._sizes[match[0]] if (end := place + size) <= len(text))
            whole = (end for end in ends if text[place:end] in self._known and stands_alone(text, place, end))
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
        """by the first letter: how long units are, the longest first"""
        found: dict[str, set[int]] = {}
        for unit in self.units:
            found.setdefault(unit[0], set()).add(len(unit))
        return {letter: sorted(sizes, reverse=True) for letter, sizes in found.items()}

    @cached_property
    def _firsts(self) -> re.Pattern[str]:
        return re.compile(f"[{re.escape(''.join(sorted(self._sizes)))}]")


def unit_numbers(found: Encoding, places: Sequence[Place]) -> NDArray[np.int32]:
    """The number of the unit of each piece, from 0 on; pieces outside of all units keep the words they belong to.

    A piece belongs to the unit in which it begins.
    """
    starts, ends = np.array(places, np.int64).reshape(-1, 2).T
    unit = np.searchsorted(starts, found.starts, side="right") - 1
    outside = (unit < 0) | (found.starts >= np.append(ends, 0)[unit])
    keys = np.stack([np.where(outside, -1, unit), np.where(outside, found.words, 0)])
    changes = (np.diff(keys, axis=1) != 0).any(0)
    return np.concatenate([np.zeros(min(1, len(found)), np.int32), np.cumsum(changes, dtype=np.int32)])
