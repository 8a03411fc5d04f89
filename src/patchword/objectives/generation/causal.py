"""Decoding steps of a causal model: prompts that grow by one token per step."""

from collections.abc import Sequence

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers import Cache, Causal, LMHead, Pattern, TextModel

UNLIMITED = 2**31  # tokens, if positions have no table


class CausalSteps:
    """Prompts of different length are padded on the left, where no token reads the padding; a token's position counts
    from the start of its own prompt. So a text does not depend on its batch.

    cache: keys and values of what was read are kept, and a step costs one token; without, all is read again.
    never: tokens that are not to be written.
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
        """(texts,) how many tokens are left until the model has no position for more"""
        return self._limit - self._lengths

    @torch.no_grad()
    def step(self, tokens: Tensor | None = None) -> Tensor:
        """(texts,) -> (texts, vocabulary) log-probabilities of the next"""
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
            f"{name!r} cannot write: its tokens read what comes after them",
            expected="a causal model, e.g. gpt2-small",
            hint="a masked model fills gaps: `patchword fill MODEL TEXT`",
        )
    if not isinstance(model.head, LMHead):
        head = model.card.config["head"] if hasattr(model, "card") else type(model.head).__name__
        raise UserError(f"{name!r} has no head for words", expected="head 'words'", got=f"the head {head!r}")


def _check(lengths: list[int], limit: int) -> None:
    if not lengths or not min(lengths):
        raise UserError("there is nothing to go on from", expected="a token at least in every prompt")
    if max(lengths) >= limit:
        raise UserError(
            "a prompt is longer than the model can go on from",
            expected=f"{limit - 1} tokens at most, so that one has room",
            got=f"{max(lengths):,}",
            hint="leave its beginning out",
        )
