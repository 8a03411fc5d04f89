"""Skip-gram pairs of a text: subsampling of frequent words, random windows and negative samples, as in word2vec.

Neighbouring centre words share a block: `centres` consecutive words, the words around them, and `negatives` negative
samples for all of them. The scores of the pairs are then entries of one small matrix product; separate pairs would read
the same embedding rows several times (Ji et al., 2016). Every positive pair occurs once, as in word2vec.
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

CHUNK = 2**18  # words of the text that are prepared at once
_MOST_OF_ONE_WORD, _MEAN_REPEATS = (
    16,
    3,
)  # limits on the occurrences of the most frequent word, and of the average word, in a step
_FEWEST_CENTRES = 4  # per step
_KEEP, _WINDOW, _NEGATIVE, _NEGATIVE_LOW = range(1, 5)  # purposes of random numbers


class PairBlocks(NamedTuple):
    """Blocks of neighbouring words and their negative samples.

    around: (blocks, window + centres + window) words, with the centres in the middle. near: (blocks, centres, around),
    1 where a word is in the window of a centre. negatives: (blocks, count) negative samples of the block.
    """

    around: Tensor
    near: Tensor
    negatives: Tensor


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of the training blocks. centres, negatives: number per block. blocks: number per step."""

    centres: int = 32
    negatives: int = 32
    blocks: int = 32

    @classmethod
    def fitting(cls, frequencies: np.ndarray) -> "BlockSizes":
        """Choose sizes for which no word occurs too often in a step, since all pairs of a step use the same vectors.

        Small vocabularies get small steps. Negative samples are not counted, although a frequent one occurs some
        hundred times per step.

        frequencies: relative word frequencies after subsampling. The sum of their squares, times the words of a step,
        is the mean number of occurrences of a word in the step.
        """
        words = min(
            _MEAN_REPEATS / float((frequencies**2).sum()),
            _MOST_OF_ONE_WORD / float(frequencies.max()),
            cls.blocks * cls.centres,
        )
        centres = min(max(round(words), _FEWEST_CENTRES), cls.centres)
        return cls(centres, blocks=max(int(words / centres), 1))


class PairSampler:
    """Draws the pairs of a pass over a text. Every draw is a function of seed, epoch and word position alone."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        window: int = 5,
        sample: float = 1e-3,
        seed: int = 0,
        sizes: BlockSizes | None = None,
    ) -> None:
        keep = keep_probability(vocabulary.counts, sample)
        thinned = vocabulary.counts * keep
        self.window, self.seed = window, seed
        self.frequencies = thinned / thinned.sum()
        self.sizes = sizes or BlockSizes.fitting(self.frequencies)
        self.keep = torch.from_numpy(keep).float()
        self.false = torch.from_numpy(np.cumsum(negative_probability(vocabulary.counts)))

    def crowd(self, threads: int) -> tuple[Tensor, Tensor]:
        """Return, per word of the input and of the output table, the expected number of threads that update it at once.

        Given that one thread's step has the word, each other thread has it with its expected count per step, at most 1.
        """
        blocks, centres, false = self.sizes.blocks, self.sizes.centres, self.false.diff(prepend=torch.zeros(1))
        frequencies = torch.from_numpy(self.frequencies)
        inputs = blocks * (centres + 2 * self.window) * frequencies
        outputs = blocks * (centres * frequencies + self.sizes.negatives * false)
        return _together(inputs, threads), _together(outputs, threads)

    def steps(self, numbers: np.ndarray, begin: int, epoch: int) -> Iterator[tuple[int, PairBlocks]]:
        """Yield the steps of the chunk of a text that starts at `begin`, each with its end position in the text."""
        part = torch.from_numpy(np.array(numbers[begin : begin + CHUNK])).long()
        places = torch.arange(begin, begin + len(part))
        kept = part >= 0
        sentence = (~kept).cumsum(0)
        kept &= uniform(self.seed, epoch, places, _KEEP) < self.keep[part.clamp(min=0)]
        words, sentence, places = part[kept], sentence[kept], places[kept]
        if not len(words):
            return
        around = self._blocks(words)
        before, behind = map(self._blocks, self._reach(sentence, places, epoch))
        false = self._negatives(len(around), begin, epoch)
        for first in range(0, len(around), self.sizes.blocks):
            some = slice(first, first + self.sizes.blocks)
            last = min((first + self.sizes.blocks) * self.sizes.centres, len(places)) - 1
            yield int(places[last]) + 1, PairBlocks(around[some], self._near(before[some], behind[some]), false[some])

    def _reach(self, sentence: Tensor, places: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """Return the number of words before and after each word in its window, which stays inside the sentence."""
        drawn = integers(self.seed, epoch, places, _WINDOW, 1, self.window)
        _, lengths = torch.unique_consecutive(sentence, return_counts=True)
        ends = lengths.cumsum(0)
        index = torch.arange(len(sentence))
        before = index - (ends - lengths).repeat_interleave(lengths)
        behind = ends.repeat_interleave(lengths) - 1 - index
        return torch.minimum(drawn, before).short(), torch.minimum(drawn, behind).short()

    def _blocks(self, row: Tensor) -> Tensor:
        """Cut the text into blocks that overlap by the window: (words,) -> (blocks, around); 0 is padding."""
        size = self.sizes.centres
        filled = F.pad(row, (self.window, -len(row) % size + self.window))
        return filled.unfold(0, size + 2 * self.window, size)

    def _near(self, before: Tensor, behind: Tensor) -> Tensor:
        """Return the mask of window members; a word is not in its own window."""
        middle = slice(self.window, self.window + self.sizes.centres)
        places = torch.arange(before.shape[1], dtype=torch.int16)
        offset = places - places[middle, None]
        near = (offset >= -before[:, middle, None]) & (offset <= behind[:, middle, None]) & (offset != 0)
        return near.float()

    def _negatives(self, blocks: int, begin: int, epoch: int) -> Tensor:
        """Sample negatives from the cumulative distribution with 48 random bits, enough for very rare words."""
        count = self.sizes.negatives
        index = begin * count + torch.arange(blocks * count)
        coarse = uniform(self.seed, epoch, index, _NEGATIVE).double()
        place = coarse + uniform(self.seed, epoch, index, _NEGATIVE_LOW).double() / 2**24
        found = torch.searchsorted(self.false, place, right=True).clamp(max=len(self.false) - 1)
        return found.view(blocks, count)


def _together(expected: Tensor, threads: int) -> Tensor:
    return (1 + (threads - 1) * expected.clamp(max=1)).float()


def keep_probability(counts: np.ndarray, sample: float) -> np.ndarray:
    """Return the subsampling probability (sqrt(f / s) + 1) s / f for frequency f, as in word2vec; 1 if s = 0."""
    if not sample:
        return np.ones(len(counts))
    fraction = counts / counts.sum()
    found: np.ndarray = np.minimum((np.sqrt(fraction / sample) + 1) * sample / fraction, 1.0)
    return found


def negative_probability(counts: np.ndarray, power: float = 0.75) -> np.ndarray:
    """Return the negative sampling distribution, proportional to count ** 0.75 (Mikolov et al., 2013)."""
    weight = counts.astype(np.float64) ** power
    found: np.ndarray = weight / weight.sum()
    return found
