"""Examples of pretraining as ranges of a corpus's tokens, and how batches are put together from them."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchword.data.text.ragged import Ragged
from patchword.data.text.stored import Corpus

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Frame:
    """The special tokens around an example, and how long it may be with them."""

    cls: int
    sep: int
    length: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Examples as ranges of the corpus's tokens. label: 0 if B follows A, 1 if it is from elsewhere, -1 without a B."""

    corpus: Corpus
    frame: Frame
    a_start: Numbers
    a_end: Numbers
    b_start: Numbers
    b_end: Numbers
    label: Numbers

    def __len__(self) -> int:
        return len(self.label)

    @property
    def lengths(self) -> Numbers:
        """of the examples, special tokens included"""
        first, second = self.a_end - self.a_start, self.b_end - self.b_start
        return first + second + 2 + (second > 0)

    def batch(self, index: Tensor) -> tuple[Ragged, Ragged, Tensor]:
        """ids [CLS] A [SEP] B [SEP] (int32), segments (0 up to the first [SEP], then 1), labels (int64)"""
        chosen = index.numpy()
        a_start, b_start = self.a_start[chosen], self.b_start[chosen]
        first, second = self.a_end[chosen] - a_start, self.b_end[chosen] - b_start
        offsets = np.concatenate([[0], np.cumsum(first + second + 2 + (second > 0))])
        starts, middles = offsets[:-1], offsets[:-1] + 1 + first
        ids, segments = np.full(offsets[-1], self.frame.sep, np.int32), np.zeros(offsets[-1], np.int32)
        ids[starts] = self.frame.cls
        ids[ranges(starts + 1, first)] = self.corpus.tokens[ranges(a_start, first)]
        ids[ranges(middles + 1, second)] = self.corpus.tokens[ranges(b_start, second)]
        segments[ranges(middles + 1, second + (second > 0))] = 1
        rows = torch.from_numpy(offsets)
        labels = torch.from_numpy(self.label[chosen])
        return Ragged(torch.from_numpy(ids), rows), Ragged(torch.from_numpy(segments), rows), labels


def ranges(starts: Numbers, lengths: Numbers) -> Numbers:
    """start, start + 1, ... of each range, one behind the other"""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + (starts - before).repeat(lengths)
