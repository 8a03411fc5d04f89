"""Words as characters, the input of character-based models (ELMo); and word lists, the vocabulary of their targets.

A word is the bytes of its UTF-8 form between a begin and an end symbol, padded to one length. A sentence begins and
ends with a special word, which has a symbol of its own in place of the bytes. Ids are shifted by one: 0 is reserved for
positions without a word.
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

from patchword.core.device import to_device
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.batching.ragged import Ragged

SENTENCE_BEGIN, SENTENCE_END, WORD_BEGIN, WORD_END, FILL = range(257, 262)  # ids as the model reads them
SYMBOLS = 262
BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"

Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True)
class CharacterReader:
    """Converts words to character ids.

    limit: maximum number of characters of a word, with its begin and end symbols; longer words are truncated.
    spare: width of the widest convolution filter. This many padding characters after the longest word give the same
        result as padding up to `limit`, because a filter over padding alone gives the same output everywhere.
    """

    limit: int = 50
    spare: int = 7

    def __post_init__(self) -> None:
        if self.limit < 3:
            raise UserError("the character limit of a word is too small", expected="3 or more", got=self.limit)

    def __call__(self, sentences: Sentences) -> Text:
        """Return ids (sentences, words + 2, characters) and the mask of words; sentences are padded at the end."""
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
        """Return (words, characters) int16, padded to `limit`; sentence begin and end have their own symbols."""
        spelled = torch.from_numpy(self._spelled(words).astype(np.int16))
        found = torch.full((len(words), self.limit), FILL, dtype=torch.int16)
        found[:, : spelled.shape[1]] = spelled
        for number, word in enumerate(words[:3]):
            if word in (BEGIN, END):
                found[number] = _mark(SENTENCE_BEGIN if word == BEGIN else SENTENCE_END, self.limit)
        return found

    def trimmed(self, table: Tensor) -> Tensor:
        """Remove the padding columns that do not change the model's output. table: rows of `table()`."""
        longest = int((table != FILL).any(0).sum())
        return table[:, : min(self.limit, longest + self.spare)]

    def _spelled(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the character ids of the words, (words, characters)."""
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
    """Return the word that begins or ends a sentence."""
    return torch.tensor([WORD_BEGIN, which, WORD_END] + [FILL] * (width - 3))


@dataclass(frozen=True)
class WordList:
    """The output vocabulary of a language model: end, begin and unknown, then words by falling frequency."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], most: int | None = None) -> "WordList":
        """Count the words of the sentences. most: maximum number of words besides the three special ones."""
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
        """Return the word ids of each sentence, with its begin and end."""
        find, unknown = self._number, self._number[UNKNOWN]
        rows = [[1, *(find.get(word, unknown) for word in sentence), 0] for sentence in sentences]
        return Ragged.of(rows, torch.int64)


def followed(text: Text, words: Tensor) -> Tensor:
    """Return the flat indices of the tokens that are followed by another token of the same text."""
    there = words[:, 1:] != IGNORE
    if text.packed is not None:
        there &= text.packed.sequence_id.diff()[None] == 0
    return F.pad(there, (0, 1)).flatten().nonzero()[:, 0]


@dataclass(frozen=True, eq=False)
class SpelledBatch:
    """A training batch of a language model. words: (texts, tokens) target word ids, IGNORE at the padding.

    places: the flat indices of tokens with a successor, if known: computing them on a GPU would synchronise.
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
        """the flat indices of the tokens that are followed by another token of the same text"""
        return followed(self.text, self.words) if self.places is None else self.places

    @property
    def weight(self) -> int:
        """Return the number of predictions in both directions: of next words and of previous words."""
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
