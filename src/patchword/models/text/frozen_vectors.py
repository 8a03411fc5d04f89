"""A tagger or a classifier over frozen word vectors: of word2vec, CoVe, ELMo, BERT, or random ones.

Trained are the mixing weights of each source's layers, a linear map to one width, a bidirectional LSTM and the head.
The layers above the vectors have the same size for all sources, so that a comparison measures the vectors.

Heads:
- "tags": a class per word
- "classes": a class per text, by max pooling over its words
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import nn

from patchword.core.errors import UserError
from patchword.layers import BidirectionalLstm, Frozen, FrozenVectorModel, MaxPool, VectorEmbedding, WordByWord
from patchword.models.registry import Family, Probability, Variant


@dataclass(frozen=True, kw_only=True)
class OverVectorsConfig:
    """Sizes of a model over frozen vectors.

    sources: per source, its number of layers and their width. width: of both directions together.
    """

    sources: tuple[tuple[PositiveInt, PositiveInt], ...] = ((1, 300),)
    width: PositiveInt = 256
    depth: NonNegativeInt = 1  # LSTM layers; 0: no context
    head: Literal["tags", "classes"] = "tags"
    classes: PositiveInt = 2
    dropout: Probability = 0.3  # on the input, on the output, and between layers

    @property
    def tokens(self) -> int:
        """The length of the example text for which parameters and MACs are counted."""
        return 32

    def example(self, tokens: int | None = None) -> Frozen:
        return Frozen(torch.zeros(1, tokens or self.tokens, sum(layers * wide for layers, wide in self.sources)))


def build(c: OverVectorsConfig) -> FrozenVectorModel:
    if not c.sources:
        raise UserError("no vectors to read", expected="sources=[[layers, width], ...]")
    return FrozenVectorModel(
        VectorEmbedding(c.sources, c.width, c.dropout),
        BidirectionalLstm(c.width, c.width, c.depth, c.dropout) if c.depth else WordByWord(),
        WordByWord() if c.head == "tags" else MaxPool(),
        nn.Linear(c.width, c.classes),
        c.dropout,
    )


FAMILY = Family(
    name="over-vectors",
    title="LSTMs over frozen vectors",
    paper="arXiv:1708.00107",
    build=build,
    read="vectors",
    variants={"": Variant(OverVectorsConfig(), 472_836, 15_056_896)},  # MACs of 32 words
)
