"""Which words of a text stand near each other: frequent ones thinned out, windows drawn, false words added.

Neighbouring centres share a block: `centres` words in a row, the words around them, and `negatives` false words for
all. Their pairs are then entries of one small matrix, found by a product, where pairs one by one would each fetch the
same rows again (Ji et al., 2016). Every true pair is there once, as word2vec has it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.data.randomness import integers, uniform
from patchword.data.text.corpus.word_counts import Vocabulary

CHUNK = 2**18  # words of the text prepared at once
_OFTEN, _AGAIN = 16, 3  # times that the most frequent word is in a step, and that others are, at most
_FEWEST = 4  # centres of a step
_THINNED, _REACHED, _FALSE, _FINER = range(1, 5)  # purposes of random numbers


class Windows(NamedTuple):
    """Blocks of neighbouring words.

    around: (blocks, reach + centres + reach) words, centres in the middle. near: (blocks, centres, around), 1 where a
    centre has a word in its window. negatives: (blocks, count) false words for every pair of the block.
    """

    around: Tensor
    near: Tensor
    negatives: Tensor


@dataclass(frozen=True)
class Sizes:
    """centres, negatives: of a block. blocks: of a step."""

    centres: int = 32
    negatives: int = 32
    blocks: int = 32

    @classmethod
    def fitting(cls, shares: np.ndarray) -> "Sizes":
        """All pairs of a step see the same vectors, so no word should be in it too often: few words, small steps.

        False words are not counted: a frequent one is in every step some hundred times. That is for the step to bear.

        shares: of the words, in a text that was thinned out. Their squares' sum, times the words of a step, is how
        often the word at some place is in it.
        """
        words = min(_AGAIN / float((shares**2).sum()), _OFTEN / float(shares.max()), cls.blocks * cls.centres)
        centres = min(max(round(words), _FEWEST), cls.centres)
        return cls(centres, blocks=max(int(words / centres), 1))


class Drawing:
    """What is random in a pass over a text: a function of the seed, the pass and the word's place, nothing else."""

    def __init__(
        self, vocabulary: Vocabulary, window: int = 5, sample: float = 1e-3, seed: int = 0, sizes: Sizes | None = None
    ) -> None:
        keep = keep_probability(vocabulary.counts, sample)
        thinned = vocabulary.counts * keep
        self.window, self.seed = window, seed
        self.shares = thinned / thinned.sum()
        self.sizes = sizes or Sizes.fitting(self.shares)
        self.keep = torch.from_numpy(keep).float()
        self.false = torch.from_numpy(np.cumsum(false_probability(vocabulary.counts)))

    def crowd(self, threads: int) -> tuple[Tensor, Tensor]:
        """(words,) of each table: how many of the threads' steps have a word in them, if one has.

        The others have it about as often as it is expected in a step: a frequent word, all; a rare one, none.
        """
        blocks, centres, false = self.sizes.blocks, self.sizes.centres, self.false.diff(prepend=torch.zeros(1))
        shares = torch.from_numpy(self.shares)
        inputs = blocks * (centres + 2 * self.window) * shares
        outputs = blocks * (centres * shares + self.sizes.negatives * false)
        return _together(inputs, threads), _together(outputs, threads)

    def steps(self, numbers: np.ndarray, begin: int, epoch: int) -> Iterator[tuple[int, Windows]]:
        """The windows of the part of a text that begins there, and how far into the text each step has come."""
        part = torch.from_numpy(np.array(numbers[begin : begin + CHUNK])).long()
        places = torch.arange(begin, begin + len(part))
        kept = part >= 0
        sentence = (~kept).cumsum(0)
        kept &= uniform(self.seed, epoch, places, _THINNED) < self.keep[part.clamp(min=0)]
        words, sentence, places = part[kept], sentence[kept], places[kept]
        if not len(words):
            return
        around = self._blocks(words)
        before, behind = map(self._blocks, self._reach(sentence, places, epoch))
        false = self._false(len(around), begin, epoch)
        for first in range(0, len(around), self.sizes.blocks):
            some = slice(first, first + self.sizes.blocks)
            last = min((first + self.sizes.blocks) * self.sizes.centres, len(places)) - 1
            yield int(places[last]) + 1, Windows(around[some], self._near(before[some], behind[some]), false[some])

    def _reach(self, sentence: Tensor, places: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """How many words before and behind each are in its window, which ends where its sentence does."""
        drawn = integers(self.seed, epoch, places, _REACHED, 1, self.window)
        _, lengths = torch.unique_consecutive(sentence, return_counts=True)
        ends = lengths.cumsum(0)
        index = torch.arange(len(sentence))
        before = index - (ends - lengths).repeat_interleave(lengths)
        behind = ends.repeat_interleave(lengths) - 1 - index
        return torch.minimum(drawn, before).short(), torch.minimum(drawn, behind).short()

    def _blocks(self, row: Tensor) -> Tensor:
        """(words,) -> (blocks, around): each block with the ends of its neighbours; 0 where there is no word"""
        size = self.sizes.centres
        filled = F.pad(row, (self.window, -len(row) % size + self.window))
        return filled.unfold(0, size + 2 * self.window, size)

    def _near(self, before: Tensor, behind: Tensor) -> Tensor:
        """A word is not in its own window."""
        middle = slice(self.window, self.window + self.sizes.centres)
        places = torch.arange(before.shape[1], dtype=torch.int16)
        offset = places - places[middle, None]
        near = (offset >= -before[:, middle, None]) & (offset <= behind[:, middle, None]) & (offset != 0)
        return near.float()

    def _false(self, blocks: int, begin: int, epoch: int) -> Tensor:
        """Places in the cumulated probability: 48 random bits, so that the rarest of a million words have theirs."""
        count = self.sizes.negatives
        index = begin * count + torch.arange(blocks * count)
        coarse = uniform(self.seed, epoch, index, _FALSE).double()
        place = coarse + uniform(self.seed, epoch, index, _FINER).double() / 2**24
        found = torch.searchsorted(self.false, place, right=True).clamp(max=len(self.false) - 1)
        return found.view(blocks, count)


def _together(expected: Tensor, threads: int) -> Tensor:
    return (1 + (threads - 1) * expected.clamp(max=1)).float()


def keep_probability(counts: np.ndarray, sample: float) -> np.ndarray:
    """Of a word with the share f of a text: (sqrt(f / s) + 1) s / f, as word2vec's program has it; 1 with s = 0."""
    if not sample:
        return np.ones(len(counts))
    share = counts / counts.sum()
    found: np.ndarray = np.minimum((np.sqrt(share / sample) + 1) * sample / share, 1.0)
    return found


def false_probability(counts: np.ndarray, power: float = 0.75) -> np.ndarray:
    """Negative words are drawn by count ** 0.75 (Mikolov et al., 2013): rare ones a little more often than seen."""
    weight = counts.astype(np.float64) ** power
    found: np.ndarray = weight / weight.sum()
    return found
