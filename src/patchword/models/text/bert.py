"""BERT (Devlin et al., 2018): a post-norm encoder over words, positions and segments, pretrained on masked words.

The head is chosen by name:
- "pooled": one vector per text. "tokens": the output of the encoder
- "vector": one vector of length 1 per text, to compare texts
- "words": masked words; "next": whether the second sentence follows; "pretraining": both, as BERT was trained
- "classes": classes, labels or a number per text or pair; "tags": a class per token; "span": start and end of an answer

`pool` selects how a text becomes one vector: BERT's pooler over [CLS], the first token, the last token, or the mean.
Deviation: the authors' last code uses the tanh approximation of GELU; the exact form is the default here, as in other
implementations that load the published weights. activation="gelu-tanh" gives the authors' form.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import PositiveInt
from torch import nn

from patchword.layers import TEXT_POSITIONS, Attention, Block, Encoder, FeedForward, Norm, Pattern, Residual
from patchword.layers.heads.text import MLMTransform
from patchword.layers.init import truncated
from patchword.layers.text.model import TextEmbedding, TextModel
from patchword.models.registry import Family, Variant
from patchword.models.text.config import TextConfig
from patchword.models.text.parts import ACTIVATIONS, norm, output_layer, text_head


@dataclass(frozen=True, kw_only=True)
class BertConfig(TextConfig):
    """Sizes of a BERT."""

    segments: PositiveInt = 2


def build(c: BertConfig) -> TextModel:
    return assembled(
        embedding(c, segments=c.segments), Encoder(block(c) for _ in range(c.depth)), text_head(c, lambda: words(c))
    )


def assembled(embedding: TextEmbedding, encoder: Encoder, head: nn.Module) -> TextModel:
    """Build a model from these parts and initialize it as BERT."""
    model = TextModel(embedding, encoder, head)
    truncated(model)
    return model


def embedding(c: TextConfig, **parts: Any) -> TextEmbedding:
    position = TEXT_POSITIONS[c.position]
    return TextEmbedding(c.vocabulary, c.width, c.max_length, norm(c), position=position, dropout=c.dropout, **parts)


def block(c: TextConfig, attention: nn.Module | None = None) -> Block:
    """norm(x + attention(x)), then norm(x + feed_forward(x))"""
    pattern = Pattern(position=TEXT_POSITIONS[c.position].in_attention(c.width, c.heads))
    attention = attention or Attention(c.width, c.heads, patterns=[pattern], dropout=c.attention_dropout)
    feed_forward = FeedForward(c.width, c.hidden, ACTIVATIONS[c.activation]())
    return Block(
        attention=Residual(attention, norm(c), Norm.POST, dropout=c.dropout),
        feed_forward=Residual(feed_forward, norm(c), Norm.POST, dropout=c.dropout),
    )


def words(c: TextConfig, width: int | None = None) -> MLMTransform:
    """A linear map, activation and norm, then the word embeddings as output matrix, whose width may be given."""
    width = width or c.width
    return MLMTransform(nn.Linear(c.width, width), ACTIVATIONS[c.activation](), norm(c, width), output_layer(c, width))


def _row(depth: int, width: int, vocabulary: int = 30522) -> BertConfig:
    """Return a config with 64 channels per head and a feed-forward of four times the width."""
    return BertConfig(depth=depth, width=width, heads=width // 64, hidden=4 * width, vocabulary=vocabulary)


MINILM = BertConfig(depth=6, width=384, heads=12, hidden=1536)

FAMILY = Family(
    name="bert",
    title="BERT",
    paper="arXiv:1810.04805",
    build=build,
    variants={  # with the pooler; MACs of 128 tokens
        "tiny": Variant(_row(2, 128), 4_385_920, 58_736_640),  # the small variants: Turc et al., 2019
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
