"""Text generation token by token: greedy search or sampling.

This module does not depend on a model. `Steps` is the interface that a search needs: a causal model that continues a
prompt, or a decoder that attends to an encoder's output.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from patchword.core.errors import UserError

NOTHING = -1  # fills a text after its end


class Steps(Protocol):
    """A batch of texts that grows by one token per step."""

    @property
    def room(self) -> Tensor:
        """(texts,) how many tokens each can still take"""
        ...

    def step(self, tokens: Tensor | None = None) -> Tensor:
        """(texts,) the tokens just written, None at first -> (texts, vocabulary): log-probabilities of the next"""
        ...

    def take(self, index: Tensor) -> None:
        """Keep the texts at `index`; a text may occur several times."""
        ...


class Choice(Protocol):
    """Selects the next token."""

    def __call__(self, scores: Tensor, texts: Tensor) -> Tensor:
        """(texts, vocabulary) log-probabilities, and the numbers that the texts had at first -> (texts,)"""
        ...


class Likeliest:
    """Greedy search."""

    def __call__(self, scores: Tensor, texts: Tensor) -> Tensor:
        return scores.argmax(-1)


class Drawn:
    """Sampling by probability.

    temperature: scores are divided by it, so that below 1 the likely become likelier.
    top_k: only so many of the likeliest. top_p: only the fewest that have this probability together (the nucleus,
    Holtzman et al., 2019). seed: every text has random numbers of its own, so that its batch does not matter.
    """

    def __init__(self, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0, seed: int = 0) -> None:
        for name, value, fits, expected in (
            ("temperature", temperature, temperature > 0, "above 0; for the likeliest token take none"),
            ("top_k", top_k, top_k is None or top_k >= 1, "1 at least"),
            ("top_p", top_p, 0 < top_p <= 1, "above 0, and 1 at most"),
        ):
            if not fits:
                raise UserError(name, expected=expected, got=value)
        self.temperature, self.top_k, self.top_p, self.seed = temperature, top_k, top_p, seed
        self._sources: dict[int, torch.Generator] = {}

    def __call__(self, scores: Tensor, texts: Tensor) -> Tensor:
        shares, order = self.shares(scores)
        point = torch.tensor([self._random(text) for text in texts.tolist()], device=scores.device)
        reached = shares.double().cumsum(-1)
        place = (reached <= point[:, None] * reached[:, -1:]).sum(-1, keepdim=True)
        return order.gather(-1, place)[:, 0]

    def shares(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The probabilities that are left, the largest first, and the tokens they belong to."""
        ordered, order = (scores / self.temperature).sort(-1, descending=True)
        if self.top_k is not None:
            ordered, order = ordered[:, : self.top_k], order[:, : self.top_k]
        shares = ordered.softmax(-1)
        before = shares.cumsum(-1) - shares
        shares = shares.masked_fill(before >= self.top_p, 0.0)
        return shares / shares.sum(-1, keepdim=True), order

    def _random(self, text: int) -> float:
        """from 0 to less than 1"""
        if text not in self._sources:
            self._sources[text] = torch.Generator().manual_seed((self.seed * 1_000_003 + text) % 2**63)
        return float(torch.rand((), dtype=torch.float64, generator=self._sources[text]))


@dataclass(frozen=True)
class Written:
    """The tokens of one text without its prompt and without the token that ended it.

    score: the sum of the log-probabilities, with the end's. ended: by an end token, and not for want of room.
    """

    tokens: tuple[int, ...]
    score: float
    ended: bool


def stream(
    steps: Steps, choice: Choice, most: int, ends: Collection[int] = ()
) -> Iterator[tuple[Sequence[int], Sequence[float]]]:
    """A token of each text at a time, with its log-probability; an end token too, and NOTHING after it.

    most: tokens of a text; it also stops where the model has no room. Texts that have ended are no longer computed.
    """
    left = steps.room.clamp(max=most)
    texts = torch.arange(len(left), device=left.device)
    count, tokens = len(left), None
    while True:
        alive = left > 0
        if tokens is not None:
            alive &= ~torch.isin(tokens, torch.tensor([*ends], dtype=tokens.dtype, device=tokens.device))
        if not alive.any():
            return
        if not alive.all():
            keep = alive.nonzero()[:, 0]
            steps.take(keep)
            texts, left, tokens = texts[keep], left[keep], None if tokens is None else tokens[keep]
        scores = steps.step(tokens)
        tokens = choice(scores, texts)
        found, chances = [NOTHING] * count, [0.0] * count
        chosen = scores.gather(-1, tokens[:, None])[:, 0].tolist()
        for text, token, chance in zip(texts.tolist(), tokens.tolist(), chosen, strict=True):
            found[text], chances[text] = token, chance
        yield found, chances
        left = left - 1


def write(steps: Steps, choice: Choice, most: int, ends: Collection[int] = ()) -> list[Written]:
    """Return the complete texts."""
    tokens: list[list[int]] = [[] for _ in range(len(steps.room))]
    scores = [0.0] * len(tokens)
    for found, chances in stream(steps, choice, most, ends):
        for text, (token, chance) in enumerate(zip(found, chances, strict=True)):
            if token != NOTHING:
                tokens[text].append(token)
                scores[text] += chance
    return [_without_end(text, score, ends) for text, score in zip(tokens, scores, strict=True)]


def _without_end(tokens: list[int], score: float, ends: Collection[int]) -> Written:
    ended = bool(tokens) and tokens[-1] in ends
    return Written(tuple(tokens[:-1] if ended else tokens), score, ended)
