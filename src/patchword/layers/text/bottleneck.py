"""MobileBERT's parts (Sun et al., 2020): blocks that run at a quarter of their width, between two linear maps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.core.text import Text
from patchword.layers.attention.projection import Projected
from patchword.layers.block import Residual
from patchword.layers.dropout import Dropout


class NoNorm(nn.Module):
    """A scale and a shift per channel: an affine map in the place of a norm, without its mean and variance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * self.weight + self.bias


class Bottleneck(nn.Module):
    """norm(x + widen(residuals(narrow(x)))): the residuals run in order, as in a block, at the width of the bottleneck.

    Inside, `scope.memory` is x, for a projection that reads the tokens at full width.
    """

    def __init__(
        self, width: int, narrow: int, norm: nn.Module, residuals: Mapping[str, Residual], dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.narrow, self.narrow_norm = nn.Linear(width, narrow), NoNorm(narrow)
        self.order = tuple(residuals)
        for name, residual in residuals.items():
            self.add_module(name, residual)
        self.widen, self.dropout, self.norm = nn.Linear(narrow, width), Dropout(dropout), norm

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        inside = replace(scope, memory=tokens)
        narrow = self.narrow_norm(self.narrow(tokens))
        for name in self.order:
            narrow = self.get_submodule(name)(narrow, inside)
        return cast(Tensor, self.norm(tokens + self.dropout(self.widen(narrow))))


class BottleneckProjection(nn.Module):
    """Projects queries and keys from a shared narrow copy of the block's input, values from the input itself."""

    def __init__(self, width: int, narrow: int) -> None:
        super().__init__()
        self.shared, self.shared_norm = nn.Linear(width, narrow), NoNorm(narrow)
        self.query_key = nn.Linear(narrow, 2 * narrow)
        self.value = nn.Linear(width, narrow)

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        outside = scope.memory
        assert outside is not None, "this projection reads the tokens outside a bottleneck"
        query, key = self.query_key(self.shared_norm(self.shared(outside))).chunk(2, dim=-1)
        return Projected(query, key, self.value(outside), scope.mask, scope.grid, scope.packed)


class Trigram(nn.Module):
    """Concatenates the vectors of the next word, the word and the previous word, and maps them to the width.

    Beyond the ends of a text the vectors are zero, whatever padding or other text is there in the batch.
    """

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(3 * words, width)

    def forward(self, words: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width of the words) -> (batch, tokens, width)"""
        following, before = F.pad(words[:, 1:], (0, 0, 0, 1)), F.pad(words[:, :-1], (0, 0, 1, 0))
        if text.packed is not None:
            begins = (text.packed.position_id == 0)[None, :, None]
            before = before.masked_fill(begins, 0.0)
            following = following.masked_fill(begins.roll(-1, 1), 0.0)  # after the last token it is 0 already
        elif text.mask is not None:
            there = text.mask[..., None]
            before = before.masked_fill(~F.pad(there[:, :-1], (0, 0, 1, 0)), 0.0)
            following = following.masked_fill(~F.pad(there[:, 1:], (0, 0, 0, 1)), 0.0)
        return cast(Tensor, self.mix(torch.cat([following, words, before], dim=-1)))


class PartlyTied(nn.Module):
    """Logits over the vocabulary if the word embeddings are narrower than the tokens: the first channels are multiplied
    by the embedding table, the others by a matrix of their own."""

    def __init__(self, vocabulary: int, extra: int) -> None:
        super().__init__()
        self.extra = nn.Linear(vocabulary, extra, bias=False)  # weight (extra, vocabulary), used transposed
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens: Tensor, table: Tensor) -> Tensor:
        """(..., width) -> (..., vocabulary)"""
        tied, own = tokens[..., : table.shape[1]], tokens[..., table.shape[1] :]
        return F.linear(tied, table, self.bias) + own @ self.extra.weight
