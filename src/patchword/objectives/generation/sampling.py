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
        """Return how many tokens can still be added to each text, (texts,)."""
        ...

    def step(self, tokens: Tensor | None = None) -> Tensor:
        """Append a token per text and return the log-probabilities of the next: (texts,) -> (texts, vocabulary).

        tokens: None in the first step.
        """
        ...

    def take(self, index: Tensor) -> None:
        """Keep the texts at `index`; a text may occur several times."""
        ...


class Choice(Protocol):
    """Selects the next token."""

    def __call__(self, scores: Tensor, texts: Tensor) -> Tensor:
        """Return the next token of each text, (texts,).

        scores: (texts, vocabulary) log-probabilities. texts: (texts,) the index of each text in the first batch.
        """
        ...


class Greedy:
    """Selects the most probable token (greedy search)."""

    def __call__(self, scores: Tensor, texts: Tensor) -> Tensor:
        return scores.argmax(-1)


class Sampling:
    """Samples the next token from the model's distribution.

    temperature: divides the scores; below 1 it makes probable tokens more probable.
    top_k: sample from the `top_k` most probable tokens only.
    top_p: sample from the smallest set of tokens whose probabilities sum to `top_p` (nucleus sampling, Holtzman et
        al., 2019).
    seed: each text has its own random generator, so that it does not depend on the other texts of the batch.
    """

    def __init__(self, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0, seed: int = 0) -> None:
        for name, value, fits, expected in (
            ("temperature", temperature, temperature > 0, "above 0; for the most probable token use greedy search"),
            ("top_k", top_k, top_k is None or top_k >= 1, "at least 1"),
            ("top_p", top_p, 0 < top_p <= 1, "above 0 and at most 1"),
        ):
            if not fits:
                raise UserError(name, expected=expected, got=value)
        self.temperature, self.top_k, self.top_p, self.seed = temperature, top_k, top_p, seed
        self._sources: dict[int, torch.Generator] = {}

    def __call__(self, scores: Tensor, texts: Tensor) -> Tensor:
        probabilities, order = self.probabilities(scores)
        point = torch.tensor([self._random(text) for text in texts.tolist()], device=scores.device)
        reached = probabilities.double().cumsum(-1)
        place = (reached <= point[:, None] * reached[:, -1:]).sum(-1, keepdim=True)
        return order.gather(-1, place)[:, 0]

    def probabilities(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities after top_k and top_p, sorted in descending order, and their token ids."""
        ordered, order = (scores / self.temperature).sort(-1, descending=True)
        if self.top_k is not None:
            ordered, order = ordered[:, : self.top_k], order[:, : self.top_k]
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        probabilities = probabilities.masked_fill(before >= self.top_p, 0.0)
        return probabilities / probabilities.sum(-1, keepdim=True), order

    def _random(self, text: int) -> float:
        """Return a random number of the text's generator, from 0 to less than 1."""
        if text not in self._sources:
            self._sources[text] = torch.Generator().manual_seed((self.seed * 1_000_003 + text) % 2**63)
        return float(torch.rand((), dtype=torch.float64, generator=self._sources[text]))


@dataclass(frozen=True)
class Generated:
    """The generated tokens of one text, without its prompt and its end token.

    score: the sum of the log-probabilities, with the end token's. ended: True if an end token ended the text, False if
    it reached the maximum length.
    """

    tokens: tuple[int, ...]
    score: float
    ended: bool


def stream(
    steps: Steps, choice: Choice, most: int, ends: Collection[int] = ()
) -> Iterator[tuple[Sequence[int], Sequence[float]]]:
    """Yield one token per text and step, with its log-probability; end tokens too, and NOTHING after the end.

    most: maximum number of new tokens per text; the model's maximum length also ends it. ends: tokens that end a text.
    Texts that have ended are no longer computed.
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


def generate(steps: Steps, choice: Choice, most: int, ends: Collection[int] = ()) -> list[Generated]:
    """Generate all texts to their end. The arguments are those of `stream`."""
    tokens: list[list[int]] = [[] for _ in range(len(steps.room))]
    scores = [0.0] * len(tokens)
    for found, chances in stream(steps, choice, most, ends):
        for text, (token, chance) in enumerate(zip(found, chances, strict=True)):
            if token != NOTHING:
                tokens[text].append(token)
                scores[text] += chance
    return [_without_end(text, score, ends) for text, score in zip(tokens, scores, strict=True)]


def _without_end(tokens: list[int], score: float, ends: Collection[int]) -> Generated:
    ended = bool(tokens) and tokens[-1] in ends
    return Generated(tuple(tokens[:-1] if ended else tokens), score, ended)
