"""Beam search: keep the best few prefixes of each text instead of one."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.objectives.generation.sampling import Generated, Steps

_NEVER = float("-inf")


class _Extension(NamedTuple):
    """A continuation: the beam that it extends, its token, and the resulting score."""

    beam: int
    token: int
    score: float


class Candidate(NamedTuple):
    """A continuation that a step considered.

    beam: the beam that it extends, counted from 0. score: the sum of the log-probabilities. fate: the kept candidates
    are the beams of the next step, in this order; a finished one ends a text or has the maximum length.
    """

    beam: int
    token: int
    score: float
    fate: Literal["kept", "finished", "dropped"]


Observer = Callable[[Sequence[Candidate]], None]
"""Called after each step of a search with its candidates, the best first."""


@dataclass
class _Search:
    """The search for one text: the active beams and the best finished ones."""

    beams: int
    max_tokens: int
    penalty: float
    ends: Collection[int]
    observe: Observer | None = None
    active: list[list[int]] = field(init=False)
    finished: list[tuple[float, Generated]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.active = [[] for _ in range(self.beams)]
        if self.max_tokens <= 0:
            self._finish([], 0.0, ended=False)

    def advance(self, ranked: list[_Extension]) -> list[_Extension]:
        """Extend the beams and return the new ones; an empty list if the search is over.

        An extension by an end token counts if it is among the best `beams`. The search is over if `beams` texts have
        finished and the best active beam, at its current length, is not better than the worst of them.
        """
        finished = [one for one in ranked[: self.beams] if one.token in self.ends and one.score > _NEVER]
        for extension in finished:
            self._finish(self.active[extension.beam], extension.score, ended=True)
        extensions = [extension for extension in ranked if extension.token not in self.ends][: self.beams]
        length = len(self.active[0]) + 1
        kept = [extension for extension in extensions if extension.score > _NEVER]
        if kept and len(self.finished) == self.beams and self._worth(kept[0].score, length) <= self._worst():
            kept = []
        if length == self.max_tokens:
            for extension in kept:
                self._finish([*self.active[extension.beam], extension.token], extension.score, ended=False)
            finished, kept = [*finished, *kept], []
        if self.observe is not None:
            self.observe(_candidates(ranked, kept, finished))
        if not kept:
            return []
        # there are fewer extensions than beams only if the vocabulary is tiny
        extensions = [*kept, *[_Extension(0, kept[0].token, _NEVER)] * (self.beams - len(kept))]
        self.active = [[*self.active[extension.beam], extension.token] for extension in extensions]
        return extensions

    def best(self) -> list[Generated]:
        return [written for _, written in self.finished]

    def _worst(self) -> float:
        return self.finished[-1][0]

    def _finish(self, tokens: list[int], score: float, ended: bool) -> None:
        self.finished.append((self._worth(score, len(tokens) + ended), Generated(tuple(tokens), score, ended)))
        self.finished.sort(key=lambda pair: -pair[0])
        del self.finished[self.beams :]

    def _worth(self, score: float, length: int) -> float:
        return score / length_penalty(length, self.penalty)


def length_penalty(length: int, exponent: float) -> float:
    """Return ((5 + length) / 6)^exponent, which divides the score of a text (Wu et al., 2016, equation 14).

    length: the number of tokens, with the end token.
    """
    return float(((5 + length) / 6) ** exponent)


def _candidates(
    ranked: Sequence[_Extension], kept: Collection[_Extension], finished: Collection[_Extension]
) -> list[Candidate]:
    return [
        Candidate(*one, "kept" if one in kept else "finished" if one in finished else "dropped")
        for one in ranked
        if one.score > _NEVER
    ]


def beam_search(
    steps: Steps,
    beams: int,
    most: int,
    ends: Collection[int] = (),
    penalty: float = 0.0,
    observers: Sequence[Observer] = (),
) -> list[list[Generated]]:
    """Return the best `beams` continuations of each text, the best first. One beam is greedy search.

    most: maximum number of new tokens. ends: tokens that end a text.
    penalty: exponent of the length penalty. 0 compares the probabilities of whole texts, which favours short ones; the
        Transformer uses 0.6.
    observers: none, or one per text.
    """
    if beams < 1:
        raise UserError("beams", expected="at least 1", got=beams)
    room = steps.room.clamp(max=most)
    watching: Sequence[Observer | None] = observers or [None] * len(room)
    searches = [
        _Search(beams, left, penalty, ends, observe) for left, observe in zip(room.tolist(), watching, strict=True)
    ]
    searching = [search for search in searches if search.max_tokens > 0]
    steps.take((room > 0).nonzero()[:, 0])
    scores = torch.zeros(len(searching), 1, device=room.device)  # each text starts with one beam
    tokens: Tensor | None = None
    while searching:
        ranked = _ranked(steps.step(tokens), scores, beams * (1 + len(ends)))
        extensions = [search.advance(found) for search, found in zip(searching, ranked, strict=True)]
        index = [row * scores.shape[1] + extension.beam for row, found in enumerate(extensions) for extension in found]
        steps.take(torch.tensor(index, dtype=torch.int64, device=room.device))
        flat = [extension for found in extensions for extension in found]
        tokens = torch.tensor([extension.token for extension in flat], device=room.device)
        scores = torch.tensor([extension.score for extension in flat], device=room.device).view(-1, beams)
        searching = [search for search, found in zip(searching, extensions, strict=True) if found]
    return [search.best() for search in searches]


def _ranked(scores: Tensor, active: Tensor, count: int) -> list[list[_Extension]]:
    """Return the best `count` extensions of each text.

    scores: (texts * beams, vocabulary) log-probabilities of the next token. active: (texts, beams) scores so far.
    """
    vocabulary = scores.shape[-1]
    sums = (active[..., None] + scores.view(*active.shape, vocabulary)).flatten(1)
    best = sums.topk(min(count, sums.shape[1]))
    return [
        [
            _Extension(place // vocabulary, place % vocabulary, score)
            for place, score in zip(places, values, strict=True)
        ]
        for places, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
