"""The Transformer (Vaswani et al., 2017): an encoder-decoder for translation, with attention only.

An encoder block has two residuals, a decoder block three: causal self-attention, attention over the encoder's output,
feed-forward. The word embeddings are also the output matrix; at the input they are multiplied by sqrt(width).

`norm` is "post", as in the paper, or "pre", which needs no long warm-up and has a norm after the last block of both
sides. With a `target_vocabulary` each language has its own embeddings.
Deviation: attention has biases, as in most implementations, where the authors' code has none. The authors' code also
applies dropout to attention weights and hidden channels, unlike the paper: `attention_dropout`, `hidden_dropout`.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import nn

from patchword.core.text import Pair, Text
from patchword.layers import (
    TEXT_POSITIONS,
    Attention,
    Block,
    Causal,
    Encoder,
    EncoderDecoder,
    FeedForward,
    MemoryProjection,
    Norm,
    NoTransform,
    Pattern,
    Residual,
    TextPositionName,
    TiedLinear,
    TokenEmbedding,
)
from patchword.layers.init import xavier
from patchword.layers.random_values import normal
from patchword.models.registry import Family, Probability, Variant


@dataclass(frozen=True, kw_only=True)
class PairConfig:
    """The fields that all sequence-to-sequence configs share."""

    vocabulary: PositiveInt = 10_000
    target_vocabulary: NonNegativeInt = 0  # 0: both languages share one vocabulary and its embeddings
    max_length: PositiveInt = 512  # maximum number of tokens per text
    width: PositiveInt = 512
    depth: PositiveInt = 6  # of the encoder, and of the decoder
    dropout: Probability = 0.1

    @property
    def tokens(self) -> int:
        """The length of the example texts for which parameters and MACs are counted."""
        return min(32, self.max_length)

    def example(self, tokens: int | None = None) -> Pair:
        """Return an example pair of texts of one length, to count costs and draw figures."""
        text = Text(torch.zeros(1, tokens or self.tokens, dtype=torch.int64))
        return Pair(text, text)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(PairConfig):
    """Sizes of a Transformer."""

    heads: PositiveInt = 8
    hidden: PositiveInt = 2048  # width of the feed-forward
    position: TextPositionName = "sinusoidal"  # the position encoding
    norm: Literal["post", "pre"] = "post"
    norm_eps: PositiveFloat = 1e-5
    attention_dropout: Probability = 0.0
    hidden_dropout: Probability = 0.0


def build(c: TransformerConfig) -> EncoderDecoder:
    encoder = Encoder(Block(attention=attention(c), feed_forward=feed_forward(c)) for _ in range(c.depth))
    decoder = Encoder(decoder_block(c) for _ in range(c.depth))
    source, target = embedding(c, c.vocabulary), embedding(c, c.target_vocabulary) if c.target_vocabulary else None
    head = NoTransform(TiedLinear(c.target_vocabulary or c.vocabulary, bias=False))
    norms = (_norm(c), _norm(c)) if c.norm == "pre" else None
    model = EncoderDecoder(source, target, encoder, decoder, head, norms)
    initialize(model)
    return model


def embedding(c: TransformerConfig, vocabulary: int) -> TokenEmbedding:
    places = TEXT_POSITIONS[c.position].on_tokens(c.width, c.max_length)
    return TokenEmbedding(vocabulary, c.width, c.max_length, positions=places, scale=c.width**0.5, dropout=c.dropout)


def decoder_block(c: TransformerConfig) -> Block:
    memory = Attention(c.width, c.heads, projection=MemoryProjection(c.width), dropout=c.attention_dropout)
    return Block(attention=attention(c, Causal()), memory=_residual(c, memory), feed_forward=feed_forward(c))


def attention(c: TransformerConfig, partition: Causal | None = None) -> Residual:
    pattern = Pattern(partition, TEXT_POSITIONS[c.position].in_attention(c.width, c.heads))
    return _residual(c, Attention(c.width, c.heads, patterns=[pattern], dropout=c.attention_dropout))


def feed_forward(c: TransformerConfig) -> Residual:
    return _residual(c, FeedForward(c.width, c.hidden, nn.ReLU(), c.hidden_dropout))


def _residual(c: TransformerConfig, sublayer: nn.Module) -> Residual:
    return Residual(sublayer, _norm(c), Norm.POST if c.norm == "post" else Norm.PRE, dropout=c.dropout)


def _norm(c: TransformerConfig) -> nn.LayerNorm:
    return nn.LayerNorm(c.width, c.norm_eps)


@torch.no_grad()
def initialize(model: nn.Module) -> None:
    """Initialize: Xavier matrices, zero biases; embeddings N(0, 1 / width), so that scaled words have variance 1."""
    xavier(model)
    for module in model.modules():
        if isinstance(module, MemoryProjection):  # two matrices in one weight, initialized separately
            for matrix in module.joint.weight.chunk(2):
                nn.init.xavier_uniform_(matrix)
        elif isinstance(module, nn.Embedding):
            normal(module.weight, std=module.embedding_dim**-0.5)


# for small data; pre-norm trains at learning rates at which post-norm hardly does
SMALL = TransformerConfig(width=256, depth=4, heads=4, hidden=1024, norm="pre", dropout=0.3)
BASE = TransformerConfig(vocabulary=37_000)
BIG = TransformerConfig(vocabulary=37_000, width=1024, heads=16, hidden=4096, dropout=0.3)

FAMILY = Family(
    name="transformer",
    title="Transformer",
    paper="arXiv:1706.03762",
    build=build,
    variants={  # MACs of 32 source and 32 target tokens
        "small": Variant(SMALL, 9_933_824, 323_092_480),
        "base": Variant(BASE, 63_082_496, 2_034_368_512),
        "big": Variant(BIG, 214_245_376, 6_887_309_312),
    },
    read="pairs",
)
