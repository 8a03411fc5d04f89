"""Beam search: keep the best few prefixes of each text instead of one."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.objectives.generation.sampling import Steps, Written

_NEVER = float("-inf")


class _Way(NamedTuple):
    """A continuation: the beam that it extends, its token, and the resulting score."""

    beam: int
    token: int
    score: float


@dataclass
class _Search:
    """The search for one text: the active beams and the best finished ones."""

    beams: int
    room: int
    penalty: float
    ends: Collection[int]
    living: list[list[int]] = field(init=False)
    finished: list[tuple[float, Written]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.living = [[] for _ in range(self.beams)]
        if self.room <= 0:
            self._finish([], 0.0, ended=False)

    def resume_loop(self, ranked: list[_Way]) -> list[_Way]:
        """The ways that live on, as many as beams; none if the search is over.

        A way that ends counts if it is among the first so many. The search is over when as many have finished, and
        the best that lives is, at its present length, no better than the worst of them.
        """
        for way in ranked[: self.beams]:
            if way.token in self.ends and way.score > _NEVER:
                self._finish(self.living[way.beam], way.score, ended=True)
        ways = [way for way in ranked if way.token not in self.ends][: self.beams]
        length = len(self.living[0]) + 1
        alive = [way for way in ways if way.score > _NEVER]
        if not alive or (len(self.finished) == self.beams and self._worth(alive[0].score, length) <= self._worst()):
            return []
        if length == self.room:
            for way in alive:
                self._finish([*self.living[way.beam], way.token], way.score, ended=False)
            return []
        ways += [_Way(0, ways[0].token, _NEVER)] * (self.beams - len(ways))  # of a tiny vocabulary
        self.living = [[*self.living[way.beam], way.token] for way in ways]
        return ways

    def best(self) -> list[Written]:
        return [written for _, written in self.finished]

    def _worst(self) -> float:
        return self.finished[-1][0]

    def _finish(self, tokens: list[int], score: float, ended: bool) -> None:
        self.finished.append((self._worth(score, len(tokens) + ended), Written(tuple(tokens), score, ended)))
        self.finished.sort(key=lambda pair: -pair[0])
        del self.finished[self.beams :]

    def _worth(self, score: float, length: int) -> float:
        """Wu et al., 2016, equation 14: the score over ((5 + length) / 6)^penalty; the end token counts."""
        return score / float(((5 + length) / 6) ** self.penalty)


def beam_search(
    steps: Steps, beams: int, most: int, ends: Collection[int] = (), penalty: float = 0.0
) -> list[list[Written]]:
    """Of each text the best `beams` that were found, the best first; with one beam it is greedy search.

    penalty: 0 compares the probabilities of whole texts, of which short ones have more; the Transformer took 0.6.
    """
    if beams < 1:
        raise UserError("beams", expected="1 at least", got=beams)
    room = steps.room.clamp(max=most)
    searches = [_Search(beams, left, penalty, ends) for left in room.tolist()]
    going = [search for search in searches if search.room > 0]
    steps.take((room > 0).nonzero()[:, 0])
    scores = torch.zeros(len(going), 1, device=room.device)  # at first a text has one beam
    tokens: Tensor | None = None
    while going:
        ranked = _ranked(steps.step(tokens), scores, beams * (1 + len(ends)))
        ways = [search.resume_loop(found) for search, found in zip(going, ranked, strict=True)]
        index = [row * scores.shape[1] + way.beam for row, found in enumerate(ways) for way in found]
        steps.take(torch.tensor(index, dtype=torch.int64, device=room.device))
        tokens = torch.tensor([way.token for found in ways for way in found], device=room.device)
        scores = torch.tensor([way.score for found in ways for way in found], device=room.device).view(-1, beams)
        going = [search for search, found in zip(going, ways, strict=True) if found]
    return [search.best() for search in searches]


def _ranked(scores: Tensor, living: Tensor, count: int) -> list[list[_Way]]:
    """Of each text the best ways to go on. scores: (texts * beams, vocabulary); living: (texts, beams)"""
    vocabulary = scores.shape[-1]
    sums = (living[..., None] + scores.view(*living.shape, vocabulary)).flatten(1)
    best = sums.topk(min(count, sums.shape[1]))
    return [
        [_Way(place // vocabulary, place % vocabulary, score) for place, score in zip(places, values, strict=True)]
        for places, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
