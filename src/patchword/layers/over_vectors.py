"""What is trained over vectors of words that are not: a mixture of their layers, LSTMs from both ends, a score."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.layers.model import Model
from patchword.layers.scalar_mix import ScalarMix


class Frozen(NamedTuple):
    """Vectors of the words of some texts.

    values: (batch, words, numbers), of each word all layers of all sources one behind the other.
    mask: (batch, words), True where there is a word; None is everywhere.
    """

    values: Tensor
    mask: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        return self.values.shape


class VectorEntrance(nn.Module):
    """Vectors of any sources to one width, so that what stands above has the same size over all of them.

    Each layer is normed and the layers of a source are mixed (Peters et al., 2018); the sources stand side by side
    (McCann et al., 2017, equation 5: word vectors beside those of a translator's encoder) before a linear map. The norm
    has no weights: it makes no source louder than another. A word that a source does not know stays zero.

    sources: of each source how many layers it has, and how wide they are.
    """

    def __init__(self, sources: Sequence[tuple[int, int]], width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.sources = tuple(sources)
        self.mixtures = nn.ModuleList(ScalarMix(layers) for layers, _ in self.sources)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(sum(wide for _, wide in self.sources), width)

    def forward(self, values: Tensor) -> Tensor:
        """(batch, words, numbers) -> (batch, words, width)"""
        parts = values.float().split([layers * wide for layers, wide in self.sources], dim=-1)
        mixed = [
            mixture(F.layer_norm(part.unflatten(-1, shape), shape[1:]).unbind(-2))
            for mixture, part, shape in zip(self.mixtures, parts, self.sources, strict=True)
        ]
        return cast(Tensor, self.linear(self.dropout(torch.cat(mixed, dim=-1))))


class WordByWord(nn.Module):
    """The words as they are: none reads another, and each is scored."""

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        return tokens


class LargestPool(nn.Module):
    """The largest value of each channel over the words of a text."""

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """(batch, words, width) -> (batch, width)"""
        there = tokens if mask is None else tokens.masked_fill(~mask[..., None], -torch.inf)
        return there.amax(1)


class OverVectors(Model):
    """encoder: (words, mask) -> words. pool: (words, mask) -> what is scored, words or texts."""

    def __init__(
        self,
        entrance: VectorEntrance,
        encoder: nn.Module,
        pool: nn.Module,
        head: nn.Linear,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.entrance, self.encoder, self.pool, self.head = entrance, encoder, pool, head
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Frozen) -> Tensor:
        """(batch, words, numbers) -> (batch, words, classes) or (batch, classes)"""
        tokens = self.encoder(self.entrance(vectors.values), vectors.mask)
        return cast(Tensor, self.head(self.dropout(self.pool(tokens, vectors.mask))))

    def shares(self) -> list[list[float]]:
        """of each source how much each of its layers counts; they add up to 1"""
        return [cast(ScalarMix, mixture).weights.softmax(0).tolist() for mixture in self.entrance.mixtures]
