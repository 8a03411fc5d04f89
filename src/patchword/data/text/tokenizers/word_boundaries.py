"""How the pieces of a vocabulary tell where words begin.

WordPiece marks what goes on with a word (##ing). Pieces of bytes and unigrams mark what begins one, by the space in
front (Ġthe, ▁the). Pieces over letters mark what ends one (the</w>): there, only the piece before tells.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import decoders

Flags = NDArray[np.bool_]
_SPACES = ("Ġ", "Ċ", "ĉ", "č")  # space, line end, tab, return, as pieces of bytes write them


@dataclass(frozen=True)
class Marks:
    """Any of: before what goes on with a word, before what begins one, behind what ends one.

    spaced: a word in the middle of a text carries its space. prefix: the first one is given one, too.
    bytes: every letter of a piece stands for a byte.
    """

    going_on: str = ""
    begins: tuple[str, ...] = ()
    ends: str = ""
    spaced: bool = False
    prefix: bool = False
    bytes: bool = False

    def continues(self, vocabulary: Mapping[str, int], special: Iterable[int]) -> Flags:
        """(entries,) whether each piece goes on with a word; none of them where only ends are marked."""
        found = np.zeros(max(vocabulary.values()) + 1, np.bool_)
        if self.begins:
            found[[number for piece, number in vocabulary.items() if not piece.startswith(self.begins)]] = True
        elif self.going_on:
            found[[number for piece, number in vocabulary.items() if piece.startswith(self.going_on)]] = True
        found[list(special)] = False
        return found

    def written(self, piece: str) -> str:
        """As it stands in text. Bytes that are a part of a character alone become U+FFFD."""
        if self.bytes:
            return str(decoders.ByteLevel().decode([piece])).removeprefix(" ")
        for mark in (self.going_on, *self.begins):
            if mark and piece.startswith(mark) and piece != mark:
                return piece.removeprefix(mark)
        return piece.removesuffix(self.ends) if self.ends else piece

    def ending(self, vocabulary: Mapping[str, int], special: Iterable[int]) -> Flags | None:
        """(entries,) whether each piece is the last of a word; None where that is not marked."""
        if not self.ends:
            return None
        found = np.zeros(max(vocabulary.values()) + 1, np.bool_)
        found[[number for piece, number in vocabulary.items() if piece.endswith(self.ends)]] = True
        found[list(special)] = True
        return found


def marks_of(settings: Mapping[str, Any]) -> Marks:
    """Of a tokenizer.json."""
    model = settings["model"]
    parts = list(_parts(settings["pre_tokenizer"]))
    for part in parts:
        if part["type"] == "ByteLevel":
            return Marks(begins=_SPACES, spaced=True, prefix=bool(part["add_prefix_space"]), bytes=True)
        if part["type"] == "Metaspace":
            prefix = part.get("prepend_scheme", "always" if part.get("add_prefix_space", True) else "never")
            return Marks(begins=(part["replacement"],), spaced=True, prefix=prefix != "never")
    return Marks(going_on=model.get("continuing_subword_prefix") or "", ends=model.get("end_of_word_suffix") or "")


def _parts(rule: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """A rule, or the rules in a row that it is made of."""
    if rule is None:
        return
    yield rule
    for part in rule.get("pretokenizers", ()):
        yield from _parts(part)
