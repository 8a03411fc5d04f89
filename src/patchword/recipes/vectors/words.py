"""Static word vectors: nearest words and analogies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from patchword.core.errors import UserError, nearest
from patchword.data.text.formats.vector_folder import is_vector_folder, read_vector_folder
from patchword.data.text.formats.word2vec import read_vectors, write_vectors
from patchword.weights.local_path import local_path

_COMPARED = 20_000  # maximum spellings that are compared for a hint


class Neighbour(NamedTuple):
    word: str
    cosine: float


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A table of word vectors. words: without duplicates. vectors: (words, width) float32."""

    words: tuple[str, ...]
    vectors: np.ndarray

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or len(self.words) != len(self.vectors):
            shape = (len(self.words), "width")
            raise UserError("word vectors", expected=f"one per word: {shape}", got=self.vectors.shape)
        if len(self.numbers) != len(self.words):
            raise UserError("word vectors", expected="unique words", got=f"{len(self.numbers):,} different words")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.numbers

    @property
    def width(self) -> int:
        return int(self.vectors.shape[1])

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def unit(self) -> np.ndarray:
        """Return the vectors scaled to length 1, so that dot products are cosines."""
        length = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        found: np.ndarray = self.vectors / np.maximum(length, 1e-12)
        return found

    @classmethod
    def read(cls, source: str | Path) -> "WordVectors":
        """Read a file of word2vec's text or binary format, a folder of vectors, or zoo:NAME."""
        path = local_path(source)
        if path.is_dir() and not is_vector_folder(path):
            raise UserError(f"{source} has no word vectors", expected="a file of vectors, or zoo:word-vectors")
        return cls(*(read_vector_folder(path) if is_vector_folder(path) else read_vectors(path)))

    def save(self, path: Path) -> None:
        write_vectors(path, self.words, self.vectors)

    def place(self, word: str) -> int:
        """Return the index of a word; an unknown word is an error."""
        if word not in self.numbers:
            raise UserError(f"there is no vector of {word!r}", hint=self._meant(word))
        return self.numbers[word]

    def of(self, words: Iterable[str]) -> np.ndarray:
        """Return (words, width). An unknown word gets the vector of its lower-case form, or zeros if there is none."""
        found = [self.numbers.get(word, self.numbers.get(word.lower(), -1)) for word in words]
        rows = np.asarray(found, np.int64)
        vectors: np.ndarray = self.vectors[np.maximum(rows, 0)] * (rows >= 0)[:, None]
        return vectors

    def near(self, word: str, count: int = 10) -> list[Neighbour]:
        """Return the words with the highest cosine similarity, without the word itself."""
        number = self.place(word)
        return self._nearest(self.unit[number], [number], count)

    def analogy(self, first: str, second: str, third: str, count: int = 10) -> list[Neighbour]:
        """`first` is to `second` as `third` is to these: nearest to second - first + third (Mikolov et al., 2013)."""
        numbers = [self.place(word) for word in (first, second, third)]
        a, b, c = self.unit[numbers]
        return self._nearest(b - a + c, numbers, count)

    def _nearest(self, vector: np.ndarray, left_out: Sequence[int], count: int) -> list[Neighbour]:
        cosines = self.unit @ (vector / max(float(np.linalg.norm(vector)), 1e-12))
        cosines[list(left_out)] = -np.inf
        count = min(count, len(self) - len(set(left_out)))
        best = np.argsort(-cosines, kind="stable")[:count]
        return [Neighbour(self.words[number], float(cosines[number])) for number in best]

    def _meant(self, word: str) -> str:
        """Return known words with the same beginning and a similar length."""
        if word.lower() in self.numbers:
            return f"did you mean {word.lower()!r}?"
        similar = (known for known in self.words if known[0] == word[:1].lower() and abs(len(known) - len(word)) < 3)
        choices = [known for known, _ in zip(similar, range(_COMPARED), strict=False)]
        return nearest(word, choices or self.words[:_COMPARED])
