"""Token masking of masked language models (Devlin et al., 2019, section 3.1).

An exact fraction of the tokens of each sequence is chosen. Of these, 80% become [MASK], 10% stay and 10% become a
random entry of the vocabulary. All random numbers are functions of (seed, epoch, sample, position), so the mask changes
per epoch and does not depend on the rest of the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.randomness import integers, uniform
from patchword.data.text.batching.mask_groups import Grouping, SingleTokens, Tokens
from patchword.data.text.batching.ragged import Numbers, Ragged, ends, ranges

_CHOICE, _FATE, _RANDOM = 14, 15, 16  # purposes of the random numbers
SINGLE_TOKENS = SingleTokens()
_PLACES = 2**20  # more than the tokens of a sequence; indexes each position of each sample


class Masked(NamedTuple):
    """The result of masking. ids: the masked input. places: indices of the chosen tokens. labels: their true ids."""

    ids: Tensor
    places: Tensor
    labels: Tensor


class Vocabulary(Protocol):
    """The part of a tokenizer's interface that masking needs."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def mask(self) -> int | None: ...
    @property
    def specials(self) -> Sequence[int]: ...


@dataclass(frozen=True, eq=False)
class Masking:
    """Masks tokens as in BERT.

    fraction: of the non-special tokens to mask. most: maximum per sequence. grouping: tokens masked together.
    replacements: the ids from which a random token is drawn.
    """

    mask: int
    special: Tensor
    replacements: Tensor
    fraction: float = 0.15
    most: int = 2**30
    grouping: Grouping = SINGLE_TOKENS

    @classmethod
    def of(
        cls,
        tokenizer: Vocabulary,
        fraction: float = 0.15,
        most: int = 2**30,
        grouping: Grouping | None = None,
        random_specials: bool = True,
    ) -> "Masking":
        """Build from a tokenizer. random_specials: random tokens may be special ones such as [PAD], as in BERT."""
        if tokenizer.mask is None:
            raise UserError(
                "the vocabulary has no [MASK]",
                hint="masked language models need it; models that read left to right (gpt-pretrain) do not",
            )
        if not 0 < fraction < 1:
            raise UserError("the fraction of masked tokens", expected="more than 0, less than 1", got=fraction)
        special = torch.zeros(tokenizer.vocabulary, dtype=torch.bool)
        special[list(tokenizer.specials)] = True
        drawn = torch.arange(tokenizer.vocabulary)[~special | random_specials]
        return cls(tokenizer.mask, special, drawn, fraction, most, grouping or SINGLE_TOKENS)

    def apply(self, ids: Ragged, samples: Tensor, seed: int, epoch: int) -> Masked:
        """Mask a batch. samples: (rows,) index of each example in the data set."""
        offsets = ids.offsets.numpy()
        found = np.flatnonzero((~self.special).index_select(0, ids.values).numpy())
        counts = np.diff(np.searchsorted(found, offsets))
        candidates = torch.from_numpy(found)
        numbers = torch.from_numpy(np.repeat(samples.numpy() * _PLACES - offsets[:-1], counts)) + candidates
        draw = uniform(seed, epoch, numbers, _CHOICE)
        if isinstance(self.grouping, SingleTokens):
            chosen = torch.from_numpy(_lowest(draw.numpy(), counts, self._budget(counts)))
        else:
            rows = torch.from_numpy(np.repeat(np.arange(len(ids)), counts))
            follows = candidates.diff(prepend=candidates.new_full((1,), -2)) == 1
            follows &= candidates > ids.offsets[rows]
            groups = self.grouping(Tokens(ids.values[candidates].long(), follows, numbers, seed, epoch))
            chosen = _chosen(rows, draw, groups, torch.from_numpy(self._budget(counts)))
        places, numbers = candidates.index_select(0, chosen), numbers.index_select(0, chosen)
        fate = uniform(seed, epoch, numbers, _FATE)
        drawn = integers(seed, epoch, numbers, _RANDOM, 0, len(self.replacements) - 1)
        labels = ids.values.index_select(0, places).long()
        shown = torch.where(fate < 0.8, self.mask, labels)
        shown = torch.where(fate >= 0.9, self.replacements.index_select(0, drawn), shown)
        return Masked(ids.values.scatter(0, places, shown.to(ids.values.dtype)), places, labels)

    def _budget(self, counts: Numbers) -> Numbers:
        """Return the number of tokens to mask, for `counts` candidates per row."""
        found: Numbers = np.rint(counts * self.fraction).astype(np.int64).clip(1, self.most)
        return found


def _lowest(draw: NDArray[np.float32], counts: Numbers, budget: Numbers) -> Numbers:
    """Return the sorted indices of the lowest draws of each row. counts: lengths of the concatenated rows.

    Row, draw and index are sorted as one integer, which takes a tenth of the time of sorting by two keys.
    """
    digits = max(1, len(draw).bit_length())
    assert len(counts).bit_length() + 24 + digits < 64, "row, draw and index fit into 64 bits"
    keys = (draw * 2**24).astype(np.int64) << digits  # draws are multiples of 2**-24
    keys |= np.arange(len(draw))
    keys |= np.repeat(np.arange(len(counts)) << (24 + digits), counts)
    keys.sort()
    taken = np.minimum(budget, counts)
    found = keys[ranges(np.cumsum(counts) - counts, taken)] & ((1 << digits) - 1)
    found.sort()
    return found


def _chosen(rows: Tensor, draw: Tensor, words: Tensor, budget: Tensor) -> Tensor:
    """Return the sorted indices of the chosen candidates: the words of a row by their draw, within its budget."""
    sizes = torch.bincount(words)
    first = ends(sizes)[:-1]
    word_rows = rows[first]
    ordered = (word_rows + draw[first].double()).argsort(stable=True)  # by row, then by draw
    taken = torch.zeros_like(sizes, dtype=torch.bool)
    taken[ordered] = _within(ends(torch.bincount(word_rows, minlength=len(budget))), sizes[ordered], word_rows, budget)
    return taken[words].nonzero()[:, 0]


def _within(offsets: Tensor, sizes: Tensor, rows: Tensor, budget: Tensor) -> Tensor:
    """Return (words,) True for the words that are taken; a word that would exceed the budget of its row is skipped.

    If all sizes are one, no search is needed. Otherwise all rows are processed in parallel, one word per step.
    """
    rank = torch.arange(len(sizes), device=sizes.device) - offsets[rows]
    if len(sizes) == 0 or int(sizes.max()) == 1:
        return rank < budget[rows]
    counts = offsets.diff()
    left, taken = budget.clone(), torch.zeros_like(sizes, dtype=torch.bool)
    for turn in range(int(counts.max())):
        open_rows = ((counts > turn) & (left > 0)).nonzero()[:, 0]
        if len(open_rows) == 0:
            break
        offered = offsets[open_rows] + turn
        fits = sizes[offered] <= left[open_rows]
        taken[offered] = fits
        left[open_rows] -= sizes[offered] * fits
    return taken
