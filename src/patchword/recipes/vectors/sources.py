"""Sources of vectors for words: fixed at random, or from a table. Those that read the context are models.

A source answers, for each sentence, every layer that it has for each word. It is never trained.
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
WIDTH = 300  # of random vectors, if not told


class Source(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def layers(self) -> int: ...

    @property
    def width(self) -> int: ...

    def vectors(self, sentences: Sequence[Words]) -> list[Tensor]:
        """Of each sentence (layers, words, width) float32, the lowest layer first; all are read at once."""
        ...

    def describe(self) -> str:
        """what is worth knowing of the words read so far, or nothing"""
        ...


@dataclass(frozen=True)
class Random:
    """N(0, 1), always the same for the same word: nothing is known but which word it is."""

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
    """One vector a word, whatever stands beside it; a word that is not there has zeros.

    read, unknown: words so far, and those of them that the table does not have.
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
    """names with + between them; a file whose own name has a + is one"""
    found = [names] if Path(names).exists() else [name.strip() for name in names.split("+")]
    if not all(found):
        raise UserError(
            "no vectors were named" if len(found) == 1 else f"a name is missing in {names!r}",
            expected="vectors=random, a file of word vectors, or a run's folder; several with + between",
            hint="e.g. vectors=words.txt+runs/translation",
        )
    return found


def random_of(name: str) -> Random | None:
    """random, or random:64 for another width"""
    word, colon, width = name.partition(":")
    if word != "random":
        return None
    if colon and not (width.isdecimal() and int(width)):
        raise UserError("the width of random vectors", expected="e.g. random:64", got=name)
    return Random(int(width)) if colon else Random()
