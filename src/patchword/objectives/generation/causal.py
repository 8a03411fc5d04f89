"""Decoding steps of a causal model: prompts that grow by one token per step."""

from collections.abc import Sequence

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers import Cache, Causal, LMHead, Pattern, TextModel

UNLIMITED = 2**31  # maximum number of tokens of a model without a position table


class CausalSteps:
    """Decoding steps of a causal language model.

    Prompts of different lengths are padded on the left, and the padding is masked. The position of a token counts from
    the start of its own prompt. So a generated text does not depend on the other texts of the batch.

    cache: keep keys and values, so that a step computes one token per text; without it, a step computes all tokens.
    never: tokens that are never generated.
    """

    def __init__(
        self, model: TextModel, prompts: Sequence[Sequence[int]], *, cache: bool = True, never: Sequence[int] = ()
    ) -> None:
        require_causal(model)
        self._model, self._cache = model, Cache() if cache else None
        self._limit = model.embedding.limit or UNLIMITED
        table = model.embedding.words.weight
        self._never = torch.tensor([*never], dtype=torch.int64, device=table.device)
        lengths = [len(prompt) for prompt in prompts]
        _check(lengths, self._limit)
        longest = max(lengths)
        rows = [[0] * (longest - len(prompt)) + list(map(int, prompt)) for prompt in prompts]
        self._ids = torch.tensor(rows, device=table.device)
        place = torch.arange(longest, device=table.device)
        self._lengths = torch.tensor(lengths, device=table.device)
        self._mask = place >= (longest - self._lengths)[:, None]
        self._padded = min(lengths) < longest
        self._read = 0  # tokens in the cache

    @property
    def room(self) -> Tensor:
        """Return how many tokens can still be added to each text, (texts,): positions are limited."""
        return self._limit - self._lengths

    @torch.no_grad()
    def step(self, tokens: Tensor | None = None) -> Tensor:
        """Append a token per text and return the log-probabilities of the next: (texts,) -> (texts, vocabulary)."""
        if tokens is not None:
            self._ids = torch.cat([self._ids, tokens[:, None]], 1)
            self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], 1)
            self._lengths = self._lengths + 1
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)
        new = slice(self._read, None)
        ids = self._ids[:, new]
        last = torch.arange(1, len(ids) + 1, device=ids.device) * ids.shape[1] - 1
        text = Text(ids, mask=self._mask if self._padded else None, predict_at=last, positions=positions[:, new])
        scores: Tensor = self._model(text, self._cache).float()
        self._read = self._ids.shape[1] if self._cache is not None else 0
        allowed: Tensor = scores.index_fill(1, self._never, float("-inf"))
        return allowed.log_softmax(-1)

    def take(self, index: Tensor) -> None:
        """Keep the texts at `index`."""
        self._ids, self._mask, self._lengths = self._ids[index], self._mask[index], self._lengths[index]
        if self._cache is not None:
            self._cache.take(index)


def require_causal(model: TextModel) -> None:
    """Raise a UserError if the model cannot generate text: only a causal language model can."""
    partitions = [part.partition for part in model.modules() if isinstance(part, Pattern)]
    name = model.card.model if hasattr(model, "card") else type(model).__name__
    if not all(isinstance(partition, Causal) for partition in partitions):
        raise UserError(
            f"{name!r} cannot generate text: its tokens attend to later tokens",
            expected="a causal model, e.g. gpt2-small",
            hint="a masked language model fills gaps: `patchword fill MODEL TEXT`",
        )
    if not isinstance(model.head, LMHead):
        head = model.card.config["head"] if hasattr(model, "card") else type(model.head).__name__
        raise UserError(f"{name!r} has no language-model head", expected="head 'words'", got=f"the head {head!r}")


def _check(lengths: list[int], limit: int) -> None:
    if not lengths or not min(lengths):
        raise UserError("a prompt is empty", expected="at least one token in every prompt")
    if max(lengths) >= limit:
        raise UserError(
            "a prompt is too long for the model",
            expected=f"at most {limit - 1} tokens, so that one more fits",
            got=f"{max(lengths):,}",
            hint="remove the beginning of the prompt",
        )
