"""Sources of word vectors without context: random or from a table. Contextual sources are models.

A source returns, for each sentence, all its layers for each word. It is never trained.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.recipes.vectors.words import WordVectors

Words = Sequence[str]
WIDTH = 300  # default width of random vectors


class Source(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def layers(self) -> int: ...

    @property
    def width(self) -> int: ...

    def vectors(self, sentences: Sequence[Words]) -> list[Tensor]:
        """Return (layers, words, width) float32 per sentence, the lowest layer first; all sentences are one batch."""
        ...

    def describe(self) -> str:
        """Return a remark on the words so far, e.g. how many are unknown; or an empty string."""
        ...


@dataclass(frozen=True)
class Random:
    """Vectors from N(0, 1), the same for the same word, which carry only the identity of the word."""

    width: int = WIDTH
    name: str = "random"
    layers: int = 1
    _drawn: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    def vectors(self, sentences: Sequence[Words]) -> list[Tensor]:
        return [torch.from_numpy(np.stack([self._of(word) for word in words]))[None] for words in sentences]

    def _of(self, word: str) -> np.ndarray:
        if word not in self._drawn:
            seed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "big")
            self._drawn[word] = np.random.default_rng(seed).standard_normal(self.width, np.float32)
        return self._drawn[word]

    def describe(self) -> str:
        return ""


@dataclass
class Table:
    """One vector per word, independent of context; unknown words have zeros.

    read, unknown: the number of words so far, and of those that the table lacks
    """

    words: WordVectors
    name: str
    read: int = 0
    unknown: int = 0
    layers: int = 1

    @property
    def width(self) -> int:
        return self.words.width

    def vectors(self, sentences: Sequence[Words]) -> list[Tensor]:
        known = self.words.numbers
        for words in sentences:
            self.read += len(words)
            self.unknown += sum(word not in known and word.lower() not in known for word in words)
        return [torch.from_numpy(self.words.of(words))[None] for words in sentences]

    def describe(self) -> str:
        return f"{self.unknown / max(1, self.read):.1%} of the words are not in {self.name}"


def listed_sources(names: str) -> list[str]:
    """Split names at +; an existing file whose name contains a + is one entry."""
    found = [names] if Path(names).exists() else [name.strip() for name in names.split("+")]
    if not all(found):
        raise UserError(
            "no vectors are given" if len(found) == 1 else f"a name is missing in {names!r}",
            expected="vectors=random, a file of word vectors, or a run's folder; several joined by +",
            hint="e.g. vectors=words.txt+runs/translation",
        )
    return found


def random_of(name: str) -> Random | None:
    """Parse random, or random:64 for another width."""
    word, colon, width = name.partition(":")
    if word != "random":
        return None
    if colon and not (width.isdecimal() and int(width)):
        raise UserError("the width of random vectors", expected="e.g. random:64", got=name)
    return Random(int(width)) if colon else Random()
