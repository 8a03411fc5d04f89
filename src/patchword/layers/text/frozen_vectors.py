"""What is trained over vectors of words that are not: a mixture of their layers, LSTMs from both ends, a score."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.layers.model import Model
from patchword.layers.text.scalar_mix import ScalarMix

_AT_ONCE = 65_536  # words whose numbers are added up together
_LEAST = 1e-6  # a number that is the same for all words stays 0


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


class VectorStem(nn.Module):
    """Vectors of any sources to one width, so that what stands above has the same size over all of them.

    Each number is brought to mean 0 and standard deviation 1 over the words that are learned from (`learn_scale`): in
    some sources most of a vector is the same for all words, and what tells them apart would hardly be heard. Then each
    layer is normed and the layers of a source are mixed (Peters et al., 2018); the sources stand side by side (McCann
    et al., 2017, equation 5: word vectors beside those of a translator's encoder) before a linear map. The norm has no
    weights: it makes no source louder than another. A word that a source does not know stays zero.

    sources: of each source how many layers it has, and how wide they are.
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
        """numbers of each source"""
        return [layers * wide for layers, wide in self.sources]

    @torch.no_grad()
    def learn_scale(self, values: Tensor) -> None:
        """values: (words, numbers), of the words that are learned from"""
        sums = [(part.double().sum(0), part.double().square().sum(0)) for part in values.split(_AT_ONCE)]
        mean, square = (torch.stack(found).sum(0) / len(values) for found in zip(*sums, strict=True))
        self.middle.copy_(mean)
        self.spread.copy_((square - mean.square()).clamp(min=_LEAST**2).sqrt())

    def forward(self, values: Tensor) -> Tensor:
        """(batch, words, numbers) -> (batch, words, width)"""
        parts = values.float().split(self._sizes(), dim=-1)
        scales = zip(self.middle.split(self._sizes()), self.spread.split(self._sizes()), strict=True)
        mixed = []
        for mixture, part, shape, (middle, spread) in zip(self.mixtures, parts, self.sources, scales, strict=True):
            known = (part != 0).any(-1, keepdim=True)
            scaled = torch.where(known, (part - middle) / spread, 0.0)
            mixed.append(mixture(F.layer_norm(scaled.unflatten(-1, shape), shape[1:]).unbind(-2)))
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
        entrance: VectorStem,
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
