"""The config base of all text families."""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from patchword.core.text import Text
from patchword.layers import TextPositionName
from patchword.models.registry import Probability

HeadName = Literal["tokens", "pooled", "vector", "words", "next", "pretraining", "classes", "tags", "span"]
PoolName = Literal["pooler", "pooler-relu", "first", "mean", "last"]
ActivationName = Literal["gelu", "gelu-tanh", "relu", "silu"]


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """The fields that all text configs share."""

    vocabulary: PositiveInt = 30522
    max_length: PositiveInt = 512  # maximum number of tokens per text
    position: TextPositionName = "learned"  # the position encoding
    classes: NonNegativeInt = 0  # outputs of a head with classes
    width: PositiveInt = 768
    depth: PositiveInt = 12
    heads: PositiveInt = 12
    hidden: PositiveInt = 3072  # width of the feed-forward
    head: HeadName = "pooled"
    pool: PoolName = "pooler"
    activation: ActivationName = "gelu"
    tied: bool = True  # the word embeddings are also the output matrix of words
    norm_eps: PositiveFloat = 1e-12
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.1

    @property
    def tokens(self) -> int:
        """The length of the example text for which parameters and MACs are counted."""
        return min(128, self.max_length)

    def example(self, tokens: int | None = None) -> Text:
        """Return an example text, to count costs and draw figures."""
        return Text(torch.zeros(1, tokens or self.tokens, dtype=torch.int64))
