"""BERT (Devlin et al., 2018): a post-norm encoder over words, positions and segments, pretrained by filling gaps.

The head is chosen by name:
- "pooled": one vector a text; the bare model
- "vector": one vector of length 1 a text, for comparing texts
- "words": the masked words; "next": whether the second sentence follows; "pretraining": both, as BERT was trained
- "classes": classes, labels or numbers of a text or a pair; "tags": a class for each token; "span": where an answer is

`pool` says how a text becomes one vector: by BERT's pooler over [CLS], as the bare [CLS], or as the mean of the tokens.
Deviation: the authors' last code uses the tanh form of GELU; the exact form is the default here, as in the published
weights' other readers. activation="gelu-tanh" gives the authors' one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import PositiveFloat, PositiveInt
from torch import nn

from patchword.core.errors import UserError
from patchword.layers import Attention, Block, Encoder, FeedForward, Gelu, Norm, Residual
from patchword.layers.initial import truncated
from patchword.layers.text import TextEmbedding, TextModel
from patchword.layers.text_heads import (
    FirstToken,
    MeanPool,
    PooledHead,
    Pooler,
    PretrainingHead,
    SentenceHead,
    TokenHead,
    VectorHead,
    WordHead,
    Words,
)
from patchword.models.registry import Family, Share, Variant
from patchword.models.text.config import TextConfig

HeadName = Literal["pooled", "vector", "words", "next", "pretraining", "classes", "tags", "span"]
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": Gelu,
    "gelu-tanh": lambda: nn.GELU(approximate="tanh"),
    "relu": nn.ReLU,
}


@dataclass(frozen=True, kw_only=True)
class BertConfig(TextConfig):
    """Sizes of a BERT."""

    width: PositiveInt = 768
    depth: PositiveInt = 12
    heads: PositiveInt = 12
    hidden: PositiveInt = 3072  # width of the feed-forward
    segments: PositiveInt = 2
    head: HeadName = "pooled"
    pool: Literal["pooler", "first", "mean"] = "pooler"
    activation: Literal["gelu", "gelu-tanh", "relu"] = "gelu"
    norm_eps: PositiveFloat = 1e-12
    dropout: Share = 0.1
    attention_dropout: Share = 0.1


def build(c: BertConfig) -> TextModel:
    entrance = TextEmbedding(c.vocabulary, c.width, c.positions, c.segments, _norm(c), c.dropout)
    model = TextModel(entrance, Encoder(block(c) for _ in range(c.depth)), head(c))
    truncated(model)
    return model


def block(c: BertConfig) -> Block:
    """norm(x + attention(x)), then norm(x + feed_forward(x))"""
    attention = Attention(c.width, c.heads, dropout=c.attention_dropout)
    feed_forward = FeedForward(c.width, c.hidden, ACTIVATIONS[c.activation]())
    return Block(
        attention=Residual(attention, _norm(c), Norm.POST, dropout=c.dropout),
        feed_forward=Residual(feed_forward, _norm(c), Norm.POST, dropout=c.dropout),
    )


def head(c: BertConfig) -> nn.Module:
    match c.head:
        case "pooled":
            return PooledHead(_pool(c))
        case "vector":
            return VectorHead(_pool(c))
        case "words":
            return WordHead(_words(c))
        case "next":
            return SentenceHead(_pool(c), c.width, 2)
        case "pretraining":
            return PretrainingHead(_words(c), _pool(c), c.width)
        case "classes":
            return SentenceHead(_pool(c), c.width, _classes(c), c.dropout)
        case "tags":
            return TokenHead(c.width, _classes(c), c.dropout)
        case "span":
            return TokenHead(c.width, 2)


def _words(c: BertConfig) -> Words:
    return Words(c.width, c.vocabulary, _norm(c), ACTIVATIONS[c.activation]())


def _pool(c: BertConfig) -> nn.Module:
    match c.pool:
        case "pooler":
            return Pooler(c.width)
        case "first":
            return FirstToken()
        case "mean":
            return MeanPool()


def _norm(c: BertConfig) -> nn.LayerNorm:
    return nn.LayerNorm(c.width, c.norm_eps)


def _classes(c: BertConfig) -> int:
    if not c.classes:
        raise UserError(f"a head of {c.head}", expected="how many there are, e.g. classes=2", got="classes=0")
    return c.classes


def _row(depth: int, width: int, vocabulary: int = 30522) -> BertConfig:
    """Heads of 64 channels, a feed-forward of four times the width."""
    return BertConfig(depth=depth, width=width, heads=width // 64, hidden=4 * width, vocabulary=vocabulary)


MINILM = BertConfig(depth=6, width=384, heads=12, hidden=1536)

FAMILY = Family(
    name="bert",
    title="BERT",
    paper="arXiv:1810.04805",
    build=build,
    variants={  # with the pooler; MACs of 128 tokens
        "tiny": Variant(_row(2, 128), 4_385_920, 58_736_640),  # the small ones: Turc et al., 2019
        "mini": Variant(_row(4, 256), 11_170_560, 436_273_152),
        "small": Variant(_row(4, 512), 28_763_648, 1_677_983_744),
        "medium": Variant(_row(8, 512), 41_373_184, 3_355_705_344),
        "base": Variant(_row(12, 768), 109_482_240, 11_174_215_680),
        "large": Variant(_row(24, 1024), 335_141_888, 39_461_060_608),
        "base-cased": Variant(_row(12, 768, 28996), 108_310_272, 11_174_215_680),
        "large-cased": Variant(_row(24, 1024, 28996), 333_579_264, 39_461_060_608),
        "base-multilingual": Variant(_row(12, 768, 119547), 177_853_440, 11_174_215_680),
        "base-multilingual-uncased": Variant(_row(12, 768, 105879), 167_356_416, 11_174_215_680),
        "base-chinese": Variant(_row(12, 768, 21128), 102_267_648, 11_174_215_680),
        "minilm": Variant(MINILM, 22_713_216, 1_434_599_424),
    },
)
