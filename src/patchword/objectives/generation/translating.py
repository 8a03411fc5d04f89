"""Decoding steps of a sequence-to-sequence model, and its attention over the source."""

from collections.abc import Sequence

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.text import Pair, Text
from patchword.layers import Attention, Cache, FromMemory, Translator, record_attention


class TranslatingSteps:
    """Decoding steps of a sequence-to-sequence model. The source is encoded once.

    begin: the first token of every target. prefix: tokens with which every target starts. beyond: a target has at most
    `beyond` tokens more than its source (50 in the Transformer paper); None: only the model's maximum length counts.
    never: tokens that are never generated. cache: keep keys and values, so that a step computes one token per text;
    without it, a step computes all tokens.
    """

    def __init__(
        self,
        model: Translator,
        source: Text,
        begin: int,
        *,
        prefix: Sequence[int] = (),
        beyond: int | None = None,
        never: Sequence[int] = (),
        cache: bool = True,
    ) -> None:
        with torch.no_grad():
            self._memory = model.encode(source)
        self._model, self._cache = model, Cache() if cache else None
        self._ids = torch.tensor([[begin, *prefix]], device=source.device).repeat(source.texts, 1)
        self._never = torch.tensor([*never], dtype=torch.int64, device=source.device)
        self._limit = torch.full((source.texts,), model.writing.longest, device=source.device)
        if beyond is not None:
            lengths = source.ids.shape[1] if source.mask is None else source.mask.sum(1)
            self._limit = self._limit.minimum(1 + beyond + lengths * torch.ones_like(self._limit))

    @property
    def room(self) -> Tensor:
        """Return how many tokens can still be added to each target, (texts,)."""
        return self._limit - self._ids.shape[1]

    @torch.no_grad()
    def step(self, tokens: Tensor | None = None) -> Tensor:
        """Append a token per text and return the log-probabilities of the next: (texts,) -> (texts, vocabulary)."""
        if tokens is not None:
            self._ids = torch.cat([self._ids, tokens[:, None]], 1)
        ids = self._ids if self._cache is None else self._ids[:, self._cache.length :]
        last = torch.arange(1, len(ids) + 1, device=ids.device) * ids.shape[1] - 1
        target = Text(ids, predict_at=last)
        scores = self._model.scores(self._model.decode(target, self._memory, self._cache), target).float()
        allowed: Tensor = scores.index_fill(1, self._never, float("-inf"))
        return allowed.log_softmax(-1)

    def take(self, index: Tensor) -> None:
        """Keep the texts at `index`."""
        self._ids, self._limit, self._memory = self._ids[index], self._limit[index], self._memory.take(index)
        if self._cache is not None:
            self._cache.take(index)


def attends_to_source(model: Translator) -> bool:
    """Return True if the decoder attends to the source; a decoder without attention has only its initial state."""
    return any(isinstance(module, FromMemory) for module in model.modules())


@torch.no_grad()
def alignment(model: Translator, pair: Pair) -> Tensor:
    """Return the decoder's attention to the source: (layers, batch, target tokens, source tokens).

    Row i is the attention at target token i, which predicts token i + 1. It is averaged over the heads and sums to 1
    over the source.
    """
    if not attends_to_source(model):
        raise UserError("this model has no attention over the source", expected="a model whose attention is not 'none'")
    with record_attention(model) as maps:
        model.decode(pair.target, model.encode(pair.source))
    attentions = {name: module for name, module in model.named_modules() if isinstance(module, Attention)}
    found = [one.weights.mean(1) for one in maps if isinstance(attentions[one.layer].projection, FromMemory)]
    return torch.stack(found)
