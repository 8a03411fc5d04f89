"""How the entries of a vocabulary mark word boundaries.

WordPiece marks entries that continue a word (##ing). Byte-level and unigram entries mark the begin of a word by the
preceding space (Ġthe, ▁the). Letter-level entries mark the end of a word (the</w>): there, the previous token decides.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import decoders

Flags = NDArray[np.bool_]
_SPACES = ("Ġ", "Ċ", "ĉ", "č")  # space, line feed, tab, carriage return in byte-level entries


@dataclass(frozen=True)
class Marks:
    """The marks of a vocabulary: prefix of continuing entries, prefixes of word begins, suffix of word ends.

    spaced: a word in the middle of a text includes its space. prefix: the first word gets a space, too.
    bytes: every letter of an entry represents a byte.
    """

    continuation: str = ""
    begins: tuple[str, ...] = ()
    ends: str = ""
    spaced: bool = False
    prefix: bool = False
    bytes: bool = False

    def continues(self, vocabulary: Mapping[str, int], special: Iterable[int]) -> Flags:
        """Return True for entries that continue a word, (entries,); all False if only ends are marked."""
        found = np.zeros(max(vocabulary.values()) + 1, np.bool_)
        if self.begins:
            found[[number for piece, number in vocabulary.items() if not piece.startswith(self.begins)]] = True
        elif self.continuation:
            found[[number for piece, number in vocabulary.items() if piece.startswith(self.continuation)]] = True
        found[list(special)] = False
        return found

    def written(self, piece: str) -> str:
        """Return an entry as it appears in text. Incomplete characters become U+FFFD."""
        if self.bytes:
            return str(decoders.ByteLevel().decode([piece])).removeprefix(" ")
        for mark in (self.continuation, *self.begins):
            if mark and piece.startswith(mark) and piece != mark:
                return piece.removeprefix(mark)
        return piece.removesuffix(self.ends) if self.ends else piece

    def ending(self, vocabulary: Mapping[str, int], special: Iterable[int]) -> Flags | None:
        """Return True for entries that end a word, (entries,); None if ends are not marked."""
        if not self.ends:
            return None
        found = np.zeros(max(vocabulary.values()) + 1, np.bool_)
        found[[number for piece, number in vocabulary.items() if piece.endswith(self.ends)]] = True
        found[list(special)] = True
        return found


def marks_of(settings: Mapping[str, Any]) -> Marks:
    """Read the marks from the settings of a tokenizer.json."""
    model = settings["model"]
    parts = list(_parts(settings["pre_tokenizer"]))
    for part in parts:
        if part["type"] == "ByteLevel":
            return Marks(begins=_SPACES, spaced=True, prefix=bool(part["add_prefix_space"]), bytes=True)
        if part["type"] == "Metaspace":
            prefix = part.get("prepend_scheme", "always" if part.get("add_prefix_space", True) else "never")
            return Marks(begins=(part["replacement"],), spaced=True, prefix=prefix != "never")
    return Marks(continuation=model.get("continuing_subword_prefix") or "", ends=model.get("end_of_word_suffix") or "")


def _parts(rule: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yield a rule and all rules that it contains."""
    if rule is None:
        return
    yield rule
    for part in rule.get("pretokenizers", ()):
        yield from _parts(part)
