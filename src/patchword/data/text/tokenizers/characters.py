"""Words as their characters, for models that spell; and the words of a vocabulary, for what such a model learns.

A word is the bytes of its UTF-8 form between two marks, filled up to one length. A sentence has a word that begins it
and one that ends it, each a mark of its own in the place of bytes. Numbers are one above the bytes and marks: 0 is left
for places where there is no word.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.core.to_device import to_device
from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.batching.ragged import Ragged

SENTENCE_BEGIN, SENTENCE_END, WORD_BEGIN, WORD_END, FILL = range(257, 262)  # as the model reads them
SYMBOLS = 262
BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"

Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True)
class CharacterReader:
    """From words to characters.

    limit: characters of the longest word, with its two marks; the rest of a longer one is not read.
    spare: characters of the widest filter. So many fillings behind the longest word answer as all up to the limit
        would, because a filter that reads nothing else answers alike everywhere; the others are left out.
    """

    limit: int = 50
    spare: int = 7

    def __post_init__(self) -> None:
        if self.limit < 3:
            raise UserError("a word needs room for its two marks and a character", expected="3 or more", got=self.limit)

    def __call__(self, sentences: Sentences) -> Text:
        """ids (sentences, words + 2, characters) with the mask of what is there; sentences are padded behind"""
        if isinstance(sentences, str) or any(isinstance(sentence, str) for sentence in sentences):
            raise UserError("a sentence is a list of words", expected='[["the", "cat"], ...]', got="a string")
        lengths = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64)
        words = torch.from_numpy(self._spelled(list(chain.from_iterable(sentences))))
        width = words.shape[1]
        longest = int(lengths.max()) + 2 if len(lengths) else 2
        place = torch.arange(longest)
        ids = torch.zeros(len(lengths), longest, width, dtype=torch.int64)
        ids[(place > 0) & (place <= lengths[:, None])] = words
        ids[:, 0] = _mark(SENTENCE_BEGIN, width)
        ids[torch.arange(len(lengths)), lengths + 1] = _mark(SENTENCE_END, width)
        mask = place < lengths[:, None] + 2
        return Text(ids, mask=None if mask.all() else mask)

    def table(self, words: Sequence[str]) -> Tensor:
        """(words, characters) int16, all of one length; the words that begin and end a sentence are their marks"""
        spelled = torch.from_numpy(self._spelled(words).astype(np.int16))
        found = torch.full((len(words), self.limit), FILL, dtype=torch.int16)
        found[:, : spelled.shape[1]] = spelled
        for number, word in enumerate(words[:3]):
            if word in (BEGIN, END):
                found[number] = _mark(SENTENCE_BEGIN if word == BEGIN else SENTENCE_END, self.limit)
        return found

    def trimmed(self, table: Tensor) -> Tensor:
        """Some rows of it, without fillings that change no answer."""
        longest = int((table != FILL).any(0).sum())
        return table[:, : min(self.limit, longest + self.spare)]

    def _spelled(self, words: Sequence[str]) -> NDArray[np.int64]:
        """(words, characters)"""
        encoded = [word.encode("utf-8", "ignore")[: self.limit - 2] for word in words]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        width = min(self.limit, max(int(lengths.max(initial=0)), 1) + 2 + self.spare)
        table = np.full((len(encoded), width), FILL, np.int64)
        table[:, 0] = WORD_BEGIN
        row = np.repeat(np.arange(len(encoded)), lengths)
        place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        table[row, place + 1] = np.frombuffer(b"".join(encoded), np.uint8).astype(np.int64) + 1
        table[np.arange(len(encoded)), lengths + 1] = WORD_END
        return table


def _mark(which: int, width: int) -> Tensor:
    """the word that begins or ends a sentence"""
    return torch.tensor([WORD_BEGIN, which, WORD_END] + [FILL] * (width - 3))


@dataclass(frozen=True)
class WordList:
    """The words that a language model tells apart, the most frequent first, behind the two ends and the unknown."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], most: int | None = None) -> "WordList":
        """most: how many words at most, besides the three."""
        found = Counter(chain.from_iterable(sentences))
        for special in (BEGIN, END, UNKNOWN):
            found.pop(special, None)
        frequent = sorted(found, key=lambda word: (-found[word], word))[:most]
        return cls((END, BEGIN, UNKNOWN, *frequent))

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def numbers(self, sentences: Sentences) -> Ragged:
        """of each sentence the numbers of its words, with its two ends"""
        find, unknown = self._number, self._number[UNKNOWN]
        rows = [[1, *(find.get(word, unknown) for word in sentence), 0] for sentence in sentences]
        return Ragged.of(rows, torch.int64)


def followed(text: Text, words: Tensor) -> Tensor:
    """The tokens, numbered through all texts, behind which stands another of the same text."""
    there = words[:, 1:] != IGNORE
    if text.packed is not None:
        there &= text.packed.sequence_id.diff()[None] == 0
    return F.pad(there, (0, 1)).flatten().nonzero()[:, 0]


@dataclass(frozen=True, eq=False)
class SpelledBatch:
    """Sentences that a language model learns from. words: (texts, tokens) of the vocabulary, IGNORE at the padding.

    places: the tokens behind which stands another, if that is known: to find them on a GPU is to wait for it.
    """

    text: Text
    words: Tensor
    places: Tensor | None = None

    @classmethod
    def of(
        cls, sentences: Sentences, reader: CharacterReader, words: WordList, device: torch.device | None = None
    ) -> "SpelledBatch":
        return cls(reader(sentences), words.numbers(sentences).padded(IGNORE)).to(device or torch.device("cpu"))

    def to(self, device: torch.device) -> "SpelledBatch":
        words, places = (to_device(part, device) for part in (self.words, self.followed))
        return SpelledBatch(self.text.to(device), words, places)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def device(self) -> torch.device:
        return self.words.device

    @cached_property
    def followed(self) -> Tensor:
        """the tokens, numbered through all texts, behind which stands another of the same text"""
        return followed(self.text, self.words) if self.places is None else self.places

    @property
    def weight(self) -> int:
        """how many words are to be told: behind each token the next, and before each the previous"""
        return 2 * len(self.followed)

    @property
    def flat_targets(self) -> Tensor:
        return self.words.flatten()

    def split(self, parts: int) -> list["SpelledBatch"]:
        if parts == 1:
            return [self]
        return [self._take(piece) for piece in torch.arange(len(self), device=self.device).chunk(parts)]

    def _take(self, texts: Tensor) -> "SpelledBatch":
        mask, words = self.text.mask, self.words[texts]
        text = self.text._replace(ids=self.text.ids[texts], mask=None if mask is None else mask[texts])
        return SpelledBatch(text, words)
