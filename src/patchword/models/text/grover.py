"""Grover (Zellers et al., 2019): a GPT for news articles with fields: domain, date, authors, headline, body.

Its blocks are x + attention(x), without a norm, then norm(x + feed_forward(norm(x))). The embeddings have a norm;
there is no dropout on them or on the attention weights. Fields are delimited by special tokens
(data/text/formats/news.py).
"""

from dataclasses import dataclass

from pydantic import PositiveInt
from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.layers import TEXT_POSITIONS, Block, Encoder, FeedForward, Norm, Residual
from patchword.layers.init import truncated
from patchword.layers.text.model import TextEmbedding, TextModel
from patchword.models.registry import Family, Probability, Variant
from patchword.models.text.config import ActivationName
from patchword.models.text.gpt import GptConfig, attention, head
from patchword.models.text.parts import ACTIVATIONS, norm


@dataclass(frozen=True, kw_only=True)
class GroverConfig(GptConfig):
    """Sizes of a Grover."""

    vocabulary: PositiveInt = 50270
    max_length: PositiveInt = 1024
    activation: ActivationName = "gelu"
    attention_dropout: Probability = 0.0


class NormedFeedForward(FeedForward):
    """f(norm(x)), inside a residual that has its own norm after it"""

    def __init__(self, norm: nn.Module, width: int, hidden: int, activation: nn.Module) -> None:
        super().__init__(width, hidden, activation)
        self.norm = norm

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        return super().forward(self.norm(tokens), scope)


def build(c: GroverConfig) -> TextModel:
    embedding = TextEmbedding(c.vocabulary, c.width, c.max_length, norm(c), position=TEXT_POSITIONS[c.position])
    model = TextModel(embedding, Encoder(block(c) for _ in range(c.depth)), head(c))
    truncated(model)
    return model


def block(c: GroverConfig) -> Block:
    feed_forward = NormedFeedForward(norm(c), c.width, c.hidden, ACTIVATIONS[c.activation]())
    return Block(
        attention=Residual(attention(c), nn.Identity(), dropout=c.dropout),
        feed_forward=Residual(feed_forward, norm(c), Norm.POST, dropout=c.dropout),
    )


def _row(depth: int, width: int) -> GroverConfig:
    """Return a config with 64 channels per head and a feed-forward of four times the width."""
    return GroverConfig(depth=depth, width=width, heads=width // 64, hidden=4 * width)


FAMILY = Family(
    name="grover",
    title="Grover",
    paper="arXiv:1905.12616",
    build=build,
    variants={  # including the head "words"; MACs of 128 tokens
        "base": Variant(_row(12, 768), 124_449_792, 16_115_367_936),
        "large": Variant(_row(24, 1024), 354_836_480, 46_049_001_472),
        "mega": Variant(_row(48, 1536), 1_438_703_616, 186_245_578_752),
    },
)
