"""Pretraining examples as ranges of a corpus's tokens, and the assembly of batches from them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchword.data.text.batching.ragged import Numbers, Ragged, ranges
from patchword.data.text.corpus.tokenized_corpus import Corpus
from patchword.data.text.tokenizers.template import Frame


@dataclass(frozen=True, eq=False)
class ExamplePlan:
    """Examples as token ranges of the corpus. label: 0 if B follows A, 1 if B is from another place, -1 without B."""

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
        """Return the number of tokens of each example, with special tokens, (examples,)."""
        first, second = self.a_end - self.a_start, self.b_end - self.b_start
        return first + second + self._specials(second)

    def batch(self, index: Tensor) -> tuple[Ragged, Ragged, Tensor]:
        """Return ids with special tokens (int32), segments (0 for A, 1 for B) and labels (int64) of these examples."""
        chosen = index.numpy()
        a_start, b_start = self.a_start[chosen], self.b_start[chosen]
        first, second = self.a_end[chosen] - a_start, self.b_end[chosen] - b_start
        offsets = np.concatenate([[0], np.cumsum(first + second + self._specials(second))])
        ids, segments = np.zeros(offsets[-1], np.int32), np.zeros(offsets[-1], np.int32)
        place, frame = offsets[:-1], self.frame
        _put(ids, place, frame.before)
        place = place + len(frame.before)
        ids[ranges(place, first)] = self.corpus.tokens[ranges(a_start, first)]
        place = place + first
        paired = second > 0
        _put(ids, place[paired], frame.between)
        place = place + len(frame.between) * paired
        ids[ranges(place, second)] = self.corpus.tokens[ranges(b_start, second)]
        _put(ids, place + second, frame.after)
        segments[ranges(place, (second + len(frame.after)) * paired)] = 1
        rows = torch.from_numpy(offsets)
        labels = torch.from_numpy(self.label[chosen])
        return Ragged(torch.from_numpy(ids), rows), Ragged(torch.from_numpy(segments), rows), labels

    def _specials(self, second: Numbers) -> Numbers:
        return self.frame.single + len(self.frame.between) * (second > 0)


def _put(ids: NDArray[np.int32], places: Numbers, tokens: Sequence[int]) -> None:
    """Write the token sequence into `ids` at each of the places."""
    for shift, token in enumerate(tokens):
        ids[places + shift] = token
