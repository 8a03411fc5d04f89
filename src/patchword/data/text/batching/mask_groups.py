"""Which tokens are masked together: each alone, the pieces of a word, a few words in a row, or phrases and names.

A grouping numbers the tokens that may be masked: equal numbers go together, and grow from one group to the next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from patchword.data.randomness import uniform
from patchword.data.text.batching.ragged import ends

GoesOn = Callable[[Sequence[int]], Sequence[bool]]
_LENGTH = 25  # purpose of the random numbers


@dataclass(frozen=True)
class Tokens:
    """The tokens of a batch that may be masked, in order.

    ids: what they are. follows: True where the one before is its neighbour in the text.
    numbers: of each its place among all places of all samples, which random numbers follow from.
    """

    ids: Tensor
    follows: Tensor
    numbers: Tensor
    seed: int
    epoch: int


class Grouping(Protocol):
    def __call__(self, tokens: Tokens) -> Tensor:
        """(tokens,) the number of the group of each"""
        ...


@dataclass(frozen=True)
class Alone:
    """Each token for itself (BERT)."""

    def __call__(self, tokens: Tokens) -> Tensor:
        return torch.arange(len(tokens.ids), device=tokens.ids.device)


@dataclass(frozen=True, eq=False)
class Words:
    """All pieces of a word. continues: (vocabulary,), True for a piece that goes on with a word."""

    continues: Tensor

    def __call__(self, tokens: Tokens) -> Tensor:
        goes_on = self.continues.to(tokens.ids.device)[tokens.ids] & tokens.follows
        return (~goes_on).cumsum(0) - 1


@dataclass(frozen=True, eq=False)
class NGrams:
    """One, two or three words in a row, n of them with a probability that falls as 1 / n (ALBERT; SpanBERT before it).

    Every text is parted into such runs anew in every epoch; how long a run is, its first word draws.
    """

    words: Words
    longest: int = 3

    def __call__(self, tokens: Tokens) -> Tensor:
        word = self.words(tokens)
        first = ends(torch.bincount(word))[:-1]  # the first token of each word
        chances = 1 / torch.arange(1, self.longest + 1, dtype=torch.float64)
        draw = uniform(tokens.seed, tokens.epoch, tokens.numbers[first], _LENGTH).double()
        lengths = 1 + torch.searchsorted((chances / chances.sum()).cumsum(0)[:-1].to(draw.device), draw, right=True)
        broken = ~tokens.follows[first]  # where a text begins, or behind a token that may not be masked
        return (_runs(lengths, broken).cumsum(0) - 1)[word]


def _runs(lengths: Tensor, broken: Tensor) -> Tensor:
    """(words,) True where a run begins, if each takes as many words as its first says and none goes over a break.

    All stretches between breaks are followed at once, a run of each at a time.
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
class Units:
    """Phrases and names as wholes (ERNIE). goes_on: of a text's ids, where a token goes on with the unit before."""

    goes_on: GoesOn

    def __call__(self, tokens: Tokens) -> Tensor:
        breaks = (~tokens.follows).nonzero()[:, 0].tolist()
        ids, flags = tokens.ids.tolist(), list[bool]()
        for start, end in zip(breaks, [*breaks[1:], len(ids)], strict=True):
            flags += [False, *self.goes_on(ids[start:end])[1:]]
        return (~torch.tensor(flags, dtype=torch.bool, device=tokens.ids.device)).cumsum(0) - 1


def phrases(units: Sequence[Sequence[int]]) -> GoesOn:
    """Units given as a list: where several could begin, the longest does."""
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


def segmented(spell: Callable[[Sequence[int]], Sequence[str]], cut: Callable[[str], Sequence[str]]) -> GoesOn:
    """Units found by a segmenter. spell: the tokens as written, ## and the like left out; cut: a text in units.

    A token that begins inside a unit goes on with it.
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
