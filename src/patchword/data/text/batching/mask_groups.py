"""Groups of tokens that are masked together: single tokens, whole words, n-grams of words, or phrases and names.

A grouping assigns a group index to each token that may be masked; indices increase from group to group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from patchword.data.randomness import uniform
from patchword.data.text.batching.ragged import ends

Continues = Callable[[Sequence[int]], Sequence[bool]]
_LENGTH = 25  # purpose of the random numbers


@dataclass(frozen=True)
class Tokens:
    """The tokens of a batch that may be masked, in order.

    ids: token ids. follows: True if the previous entry is the previous token of the text.
    numbers: unique index of (sample, position), from which random numbers are computed.
    """

    ids: Tensor
    follows: Tensor
    numbers: Tensor
    seed: int
    epoch: int


class Grouping(Protocol):
    def __call__(self, tokens: Tokens) -> Tensor:
        """Return (tokens,) the group index of each token."""
        ...


@dataclass(frozen=True)
class SingleTokens:
    """Single tokens (BERT)."""

    def __call__(self, tokens: Tokens) -> Tensor:
        return torch.arange(len(tokens.ids), device=tokens.ids.device)


@dataclass(frozen=True, eq=False)
class WholeWords:
    """Whole words. continues: (vocabulary,), True for entries that continue a word."""

    continues: Tensor

    def __call__(self, tokens: Tokens) -> Tensor:
        goes_on = self.continues.to(tokens.ids.device)[tokens.ids] & tokens.follows
        return (~goes_on).cumsum(0) - 1


@dataclass(frozen=True, eq=False)
class NGrams:
    """N-grams of one to three words; length n has probability proportional to 1 / n (ALBERT, after SpanBERT).

    Every text is split into n-grams anew in every epoch; the length is drawn for the first word of an n-gram.
    """

    words: WholeWords
    longest: int = 3

    def __call__(self, tokens: Tokens) -> Tensor:
        word = self.words(tokens)
        first = ends(torch.bincount(word))[:-1]  # the first token of each word
        chances = 1 / torch.arange(1, self.longest + 1, dtype=torch.float64)
        draw = uniform(tokens.seed, tokens.epoch, tokens.numbers[first], _LENGTH).double()
        lengths = 1 + torch.searchsorted((chances / chances.sum()).cumsum(0)[:-1].to(draw.device), draw, right=True)
        broken = ~tokens.follows[first]  # first word of a text, or after a token that may not be masked
        return (_runs(lengths, broken).cumsum(0) - 1)[word]


def _runs(lengths: Tensor, broken: Tensor) -> Tensor:
    """Return (words,) True where a run begins. A run has the length of its first word and does not cross a break.

    All stretches between breaks are processed in parallel, one run per step.
    """
    begins = torch.zeros_like(broken)
    stretches = broken.nonzero()[:, 0]
    limits = torch.cat([stretches[1:], stretches.new_full((1,), len(broken))])
    while len(stretches):
        begins[stretches] = True
        stretches = stretches + lengths[stretches]
        inside = stretches < limits
        stretches, limits = stretches[inside], limits[inside]
    return begins


@dataclass(frozen=True, eq=False)
class PhraseUnits:
    """Whole phrases and names (ERNIE). goes_on: for the ids of a text, True where a token continues a unit."""

    goes_on: Continues

    def __call__(self, tokens: Tokens) -> Tensor:
        breaks = (~tokens.follows).nonzero()[:, 0].tolist()
        ids, flags = tokens.ids.tolist(), list[bool]()
        for start, end in zip(breaks, [*breaks[1:], len(ids)], strict=True):
            flags += [False, *self.goes_on(ids[start:end])[1:]]
        return (~torch.tensor(flags, dtype=torch.bool, device=tokens.ids.device)).cumsum(0) - 1


def phrases(units: Sequence[Sequence[int]]) -> Continues:
    """Units from a list of id sequences: at each position the longest match is taken."""
    lengths = sorted({len(unit) for unit in units if len(unit) > 1}, reverse=True)
    table = {size: {tuple(unit) for unit in units if len(unit) == size} for size in lengths}

    def goes_on(ids: Sequence[int]) -> list[bool]:
        flags, place = [False] * len(ids), 0
        while place < len(ids):
            length = next((size for size in lengths if tuple(ids[place : place + size]) in table[size]), 1)
            flags[place + 1 : place + length] = [True] * (length - 1)
            place += length
        return flags

    return goes_on


def segmented(spell: Callable[[Sequence[int]], Sequence[str]], cut: Callable[[str], Sequence[str]]) -> Continues:
    """Units from a segmenter. spell: ids -> tokens as text, without ## and the like. cut: text -> units.

    A token that begins inside a unit continues it.
    """

    def goes_on(ids: Sequence[int]) -> list[bool]:
        written = spell(ids)
        starts, place = {0}, 0
        for unit in cut("".join(written)):
            place += len(unit)
            starts.add(place)
        flags, place = list[bool](), 0
        for token in written:
            flags.append(place not in starts)
            place += len(token)
        return flags

    return goes_on
