"""A corpus of word ids with one spelling per distinct word, and its batches for character-based models (ELMo)."""

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchword.core.text import Text
from patchword.data.randomness import order
from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.batching.ragged import Ragged, ends
from patchword.data.text.corpus.sentences import sentences
from patchword.data.text.corpus.word_counts import Cut
from patchword.data.text.tokenizers.characters import BEGIN, END, UNKNOWN, CharacterReader, SpelledBatch

ENDS = (END, BEGIN, UNKNOWN)  # word ids 0, 1 and 2


@dataclass(frozen=True, eq=False)
class WordCorpus:
    """Sentences as word ids.

    words: the given vocabulary, then all other words of the text, most frequent first. sentences: int32 word ids, with
    the begin and end markers of each sentence.
    """

    words: tuple[str, ...]
    sentences: Ragged

    @classmethod
    def read(cls, texts: Iterable[str], cut: Cut, known: tuple[str, ...] = ENDS) -> "WordCorpus":
        """Read a corpus. known: words that keep their ids; the first three are the end, begin and unknown markers."""
        numbers = {word: number for number, word in enumerate(known)}
        values, lengths = array("i"), array("i")
        for text in texts:
            for sentence in sentences(text):
                words = cut(sentence)
                if words:
                    values.append(1)
                    values.extend([numbers.setdefault(word, len(numbers)) for word in words])
                    values.append(0)
                    lengths.append(len(words) + 2)
        seen, names = np.array(values, np.int32), tuple(numbers)
        ranked = _ranked(seen, names, len(known))
        place = np.empty(len(names), np.int32)
        place[ranked] = np.arange(len(names), dtype=np.int32)
        offsets = ends(torch.from_numpy(np.array(lengths, np.int64)))
        return cls(tuple(names[number] for number in ranked), Ragged(torch.from_numpy(place[seen]), offsets))

    def fingerprint(self) -> str:
        found = hashlib.sha256("\n".join(self.words).encode("utf-8", "surrogatepass"))
        found.update(self.sentences.values.numpy().tobytes())
        found.update(self.sentences.offsets.numpy().tobytes())
        return found.hexdigest()


def _ranked(seen: np.ndarray, names: tuple[str, ...], known: int) -> list[int]:
    """Return the word ids in their new order: known words first, the others by falling count, then alphabetically."""
    counts = np.bincount(seen, minlength=len(names))
    return [*range(known), *sorted(range(known, len(names)), key=lambda number: (-counts[number], names[number]))]


def split_long(texts: Ragged, longest: int) -> Ragged:
    """Split every text of more than `longest` tokens into parts of nearly equal length."""
    lengths = texts.lengths
    parts = -(-lengths // longest)
    of = torch.arange(len(texts)).repeat_interleave(parts)
    number = torch.arange(len(of)) - ends(parts)[of]
    begin = texts.offsets[of] + lengths[of] * number // parts[of]
    return Ragged(texts.values, torch.cat([begin, texts.offsets[-1:]]))


def batches_by_length(lengths: Tensor, most: int, seed: int, epoch: int) -> list[Tensor]:
    """Return the text indices of each batch: texts of similar length, at most `most` tokens with padding, shuffled.

    The batch sizes depend on the lengths alone, so every epoch has the same number of batches. Which texts of equal
    length share a batch changes per epoch.
    """
    shuffled = order(seed, epoch, len(lengths))
    ranked = shuffled[lengths[shuffled].argsort(stable=True)]
    batches = ranked.split(_sizes(lengths.sort().values.numpy(), most))
    return [batches[number] for number in order(seed + 1, epoch, len(batches)).tolist()]


def _sizes(lengths: np.ndarray, most: int) -> list[int]:
    """Return the number of texts of each batch. lengths: in ascending order."""
    found, begin = list[int](), 0
    while begin < len(lengths):
        some = lengths[begin : begin + max(1, most // int(lengths[begin]))]
        padded = some * np.arange(1, len(some) + 1)
        found.append(max(1, int(np.searchsorted(padded, most, side="right"))))
        begin += found[-1]
    return found


@dataclass(frozen=True, eq=False)
class SpelledTexts:
    """Training texts. vocabulary: number of words that are predicted; all others count as the unknown word.

    spelling: (words, characters) int16, the characters of every word.
    """

    texts: Ragged
    spelling: Tensor
    vocabulary: int
    reader: CharacterReader
    device: torch.device

    def __len__(self) -> int:
        return len(self.texts)

    def batch(self, index: Tensor) -> SpelledBatch:
        """Return the batch on the device. The characters of each distinct word are stored once."""
        chosen = self.texts.take(index)
        numbers, mask = chosen.padded(-1), chosen.mask()
        words, which = chosen.values.unique(return_inverse=True)
        ids = torch.zeros(numbers.shape, dtype=torch.int64)
        ids[mask] = which
        targets = torch.where(numbers < self.vocabulary, numbers, 2).long().masked_fill(~mask, IGNORE)
        spelling = self.reader.trimmed(self.spelling[words.long()]).long()
        text = Text(ids, mask=None if mask.all() else mask, spelling=spelling)
        return SpelledBatch(text, targets).to(self.device)
