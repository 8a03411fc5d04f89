"""A tagger or a classifier over vectors that stay as they are: word2vec's, CoVe's, ELMo's, BERT's, or random ones.

Learned are: how much each layer of a source counts, a linear map to one width, LSTMs that read from both ends, and the
head. So a comparison of sources is one of the vectors: what stands above them has the same size for all.

Heads:
- "tags": a class for each word
- "classes": of a text, by the largest value of each channel over its words
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import nn

from patchword.core.errors import UserError
from patchword.layers import BidirectionalLstm, Frozen, LargestPool, OverVectors, VectorStem, WordByWord
from patchword.models.registry import Family, Probability, Variant


@dataclass(frozen=True, kw_only=True)
class OverVectorsConfig:
    """sources: of each the number of its layers and their width. width: of both directions together."""

    sources: tuple[tuple[PositiveInt, PositiveInt], ...] = ((1, 300),)
    width: PositiveInt = 256
    depth: NonNegativeInt = 1  # layers of LSTMs; 0: every word by itself
    head: Literal["tags", "classes"] = "tags"
    classes: PositiveInt = 2
    dropout: Probability = 0.3  # of what enters, of what leaves, and between layers

    @property
    def tokens(self) -> int:
        """words of a text, for which models are counted"""
        return 32

    def example(self, tokens: int | None = None) -> Frozen:
        return Frozen(torch.zeros(1, tokens or self.tokens, sum(layers * wide for layers, wide in self.sources)))


def build(c: OverVectorsConfig) -> OverVectors:
    if not c.sources:
        raise UserError("no vectors to read", expected="sources=[[layers, width], ...]")
    return OverVectors(
        VectorStem(c.sources, c.width, c.dropout),
        BidirectionalLstm(c.width, c.width, c.depth, c.dropout) if c.depth else WordByWord(),
        WordByWord() if c.head == "tags" else LargestPool(),
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
