"""Models over frozen word vectors: a trained mixture of the layers, a bidirectional LSTM, a classifier."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.layers.model import Model
from patchword.layers.text.scalar_mix import ScalarMix

_AT_ONCE = 65_536  # words per chunk, when means are computed
_LEAST = 1e-6  # smallest standard deviation: a constant feature stays 0


class Frozen(NamedTuple):
    """Frozen word vectors of a batch of texts.

    values: (batch, words, features): all layers of all sources, concatenated.
    mask: (batch, words), True where there is a word; None means everywhere.
    """

    values: Tensor
    mask: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        """The shape of the values."""
        return self.values.shape


class VectorEmbedding(nn.Module):
    """Maps the vectors of any sources to one width, so that the layers above have the same size for all of them.

    Each feature is standardized to mean 0 and standard deviation 1 over the training words (`learn_scale`): in some
    sources most of a vector is the same for all words, which would hide the differences. Then each layer is normalized
    and the layers of a source are mixed (Peters et al., 2018). The sources are concatenated (McCann et al., 2017,
    equation 5) before a linear map. The norm has no weights, so that all sources have the same scale. A word that a
    source does not know stays zero.

    sources: per source, its number of layers and their width.
    """

    middle: Tensor
    spread: Tensor

    def __init__(self, sources: Sequence[tuple[int, int]], width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.sources = tuple(sources)
        self.mixtures = nn.ModuleList(ScalarMix(layers) for layers, _ in self.sources)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(sum(wide for _, wide in self.sources), width)
        numbers = sum(self._sizes())
        self.register_buffer("middle", torch.zeros(numbers))
        self.register_buffer("spread", torch.ones(numbers))

    def _sizes(self) -> list[int]:
        """Return the number of features per source."""
        return [layers * wide for layers, wide in self.sources]

    @torch.no_grad()
    def fit_scale(self, values: Tensor) -> None:
        """Compute mean and standard deviation of each feature over the training words, (words, features)."""
        sums = [(part.double().sum(0), part.double().square().sum(0)) for part in values.split(_AT_ONCE)]
        mean, square = (torch.stack(found).sum(0) / len(values) for found in zip(*sums, strict=True))
        self.middle.copy_(mean)
        self.spread.copy_((square - mean.square()).clamp(min=_LEAST**2).sqrt())

    def forward(self, values: Tensor) -> Tensor:
        """(batch, words, features) -> (batch, words, width)"""
        parts = values.float().split(self._sizes(), dim=-1)
        scales = zip(self.middle.split(self._sizes()), self.spread.split(self._sizes()), strict=True)
        mixed = []
        for mixture, part, shape, (middle, spread) in zip(self.mixtures, parts, self.sources, scales, strict=True):
            known = (part != 0).any(-1, keepdim=True)
            scaled = torch.where(known, (part - middle) / spread, 0.0)
            mixed.append(mixture(F.layer_norm(scaled.unflatten(-1, shape), shape[1:]).unbind(-2)))
        return cast(Tensor, self.linear(self.dropout(torch.cat(mixed, dim=-1))))


class WordByWord(nn.Module):
    """Returns the words unchanged: each word is classified by itself, without context."""

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        return tokens


class MaxPool(nn.Module):
    """Max pooling over the words of a text."""

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """(batch, words, width) -> (batch, width)"""
        there = tokens if mask is None else tokens.masked_fill(~mask[..., None], -torch.inf)
        return there.amax(1)


class FrozenVectorModel(Model):
    """A classifier over frozen word vectors.

    encoder: (words, mask) -> words. pool: (words, mask) -> the vectors to classify, one per word or one per text.
    """

    def __init__(
        self,
        embedding: VectorEmbedding,
        encoder: nn.Module,
        pool: nn.Module,
        head: nn.Linear,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding, self.encoder, self.pool, self.head = embedding, encoder, pool, head
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Frozen) -> Tensor:
        """(batch, words, features) -> (batch, words, classes) or (batch, classes)"""
        tokens = self.encoder(self.embedding(vectors.values), vectors.mask)
        return cast(Tensor, self.head(self.dropout(self.pool(tokens, vectors.mask))))

    def layer_weights(self) -> list[list[float]]:
        """Return, per source, the mixing weights of its layers, which sum to 1."""
        return [cast(ScalarMix, mixture).weights.softmax(0).tolist() for mixture in self.embedding.mixtures]
