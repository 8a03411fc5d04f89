"""Shared helpers of the tests of pretraining data: a letter tokenizer and a synthetic corpus."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from patchword.data.text.corpus.tokenized_corpus import Corpus, Manifest

SPECIALS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Letters:
    """Every letter is a token of its own, those after the first of a word continue it; all else is unknown.

    Under another name the alphabet runs backwards.
    """

    vocabulary = 5 + 2 * len(LETTERS)
    pad, unknown, cls, sep, mask = SPECIALS.values()
    specials = tuple(SPECIALS.values())
    spaced = False
    continues = np.arange(vocabulary) >= 5 + len(LETTERS)

    def __init__(self, name: str = "letters", pause: float = 0) -> None:
        self.name, self.pause, self.asked = name, pause, 0
        self.letters = LETTERS if name == "letters" else LETTERS[::-1]

    def ids_of(self, texts: Sequence[str]) -> list[np.ndarray]:
        self.asked += len(texts)
        time.sleep(self.pause)
        return [np.array([self._id(text, place) for place in self._places(text)], np.int32) for text in texts]

    def fingerprint(self) -> str:
        return self.name

    def _places(self, text: str) -> list[int]:
        return [found.start() for found in re.finditer(r"[^\W_]", text)]

    def _id(self, text: str, place: int) -> int:
        number = self.letters.find(text[place].lower())
        if number < 0:
            return self.unknown
        return 5 + number + (len(LETTERS) if place and text[place - 1].isalpha() else 0)


def numbered_corpus(documents: Sequence[Sequence[int]]) -> Corpus:
    """Return a corpus with documents of the given sentence lengths. Token i of the corpus has the id i + 10."""
    lengths = [length for document in documents for length in document]
    sentences = np.cumsum([0, *lengths], dtype=np.int64)
    offsets = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    total = int(sentences[-1])
    manifest = Manifest("numbered", 10 + total, len(documents), len(lengths), total, 0, 0.0, {}, ())
    return Corpus(manifest, np.arange(10, 10 + total, dtype=np.uint32), sentences, offsets)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.bin"))}
