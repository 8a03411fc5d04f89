"""Which tokens a masked language model has to guess, and what it sees in their place (Devlin et al., 2019, 3.1).

Of the tokens of each sequence an exact share is chosen, not one by one with a probability. Of the chosen, 80% become
[MASK], 10% stay, 10% become a random entry of the vocabulary. Everything random is a function of (seed, epoch, sample,
place): another mask at every epoch, the same whatever else is in the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.randomness import integers, uniform
from patchword.data.text.grouping import Alone, Grouping, Tokens
from patchword.data.text.ragged import Ragged, ends

_CHOICE, _FATE, _RANDOM = 14, 15, 16  # purposes of the random numbers
ALONE = Alone()
_PLACES = 2**20  # more than a sequence has; numbers each place of each sample


class Masked(NamedTuple):
    """ids: the values of the batch as the model sees them. places: the chosen ones among them, in order. labels: what
    stood there."""

    ids: Tensor
    places: Tensor
    labels: Tensor


class Vocabulary(Protocol):
    """What masking needs of a tokenizer."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def mask(self) -> int | None: ...
    @property
    def specials(self) -> Sequence[int]: ...


@dataclass(frozen=True, eq=False)
class Masking:
    """share: of the tokens that are not special. most: the limit for a sequence. grouping: which are masked together.
    replacements: the ids that a random token is drawn from."""

    mask: int
    special: Tensor
    replacements: Tensor
    share: float = 0.15
    most: int = 2**30
    grouping: Grouping = ALONE

    @classmethod
    def of(
        cls,
        tokenizer: Vocabulary,
        share: float = 0.15,
        most: int = 2**30,
        grouping: Grouping | None = None,
        random_specials: bool = True,
    ) -> "Masking":
        """random_specials: a random token may be [CLS] or [PAD], as in BERT; without, it is an ordinary one."""
        if tokenizer.mask is None:
            raise UserError(
                "the vocabulary has no [MASK]",
                hint="masked language models need it; models that read left to right (gpt-pretrain) do not",
            )
        if not 0 < share < 1:
            raise UserError("the share of masked tokens", expected="more than 0, less than 1", got=share)
        special = torch.zeros(tokenizer.vocabulary, dtype=torch.bool)
        special[list(tokenizer.specials)] = True
        drawn = torch.arange(tokenizer.vocabulary)[~special | random_specials]
        return cls(tokenizer.mask, special, drawn, share, most, grouping or ALONE)

    def apply(self, ids: Ragged, samples: Tensor, seed: int, epoch: int) -> Masked:
        """samples: the number of each row's example in the set."""
        values, device = ids.values.long(), ids.values.device
        rows = torch.arange(len(ids), device=device).repeat_interleave(ids.lengths)
        place = torch.arange(len(values), device=device) - ids.offsets[rows]
        numbers = samples.to(device)[rows] * _PLACES + place
        draw = uniform(seed, epoch, numbers, _CHOICE)
        candidates = (~self.special.to(device)[values]).nonzero()[:, 0]
        follows = (candidates.diff(prepend=candidates.new_full((1,), -2)) == 1) & (place[candidates] > 0)
        groups = self.grouping(Tokens(values[candidates], follows, numbers[candidates], seed, epoch))
        places = candidates[_chosen(rows[candidates], draw[candidates], groups, len(ids), self.share, self.most)]
        fate = uniform(seed, epoch, numbers[places], _FATE)
        drawn = integers(seed, epoch, numbers[places], _RANDOM, 0, len(self.replacements) - 1)
        labels = values[places]
        shown = torch.where(fate < 0.8, self.mask, labels)
        shown = torch.where(fate >= 0.9, self.replacements.to(device)[drawn], shown)
        return Masked(ids.values.scatter(0, places, shown.to(ids.values.dtype)), places, labels)


def _chosen(rows: Tensor, draw: Tensor, words: Tensor, count: int, share: float, most: int) -> Tensor:
    """The numbers of the chosen candidates, in order: the words of a row by their draw, as many as its budget holds."""
    budget = (torch.bincount(rows, minlength=count).double() * share).round().long().clamp(1, most)
    sizes = torch.bincount(words)
    first = ends(sizes)[:-1]
    word_rows = rows[first]
    ordered = (word_rows + draw[first].double()).argsort(stable=True)  # by row, then by draw
    taken = torch.zeros_like(sizes, dtype=torch.bool)
    taken[ordered] = _within(ends(torch.bincount(word_rows, minlength=count)), sizes[ordered], word_rows, budget)
    return taken[words].nonzero()[:, 0]


def _within(offsets: Tensor, sizes: Tensor, rows: Tensor, budget: Tensor) -> Tensor:
    """(words,) whether each is taken; a word that would go over the budget of its row is passed over.

    Sizes of one need no search. Otherwise the words of all rows are offered together, one of each row at a time.
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
