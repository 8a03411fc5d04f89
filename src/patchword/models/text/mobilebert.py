"""MobileBERT (Sun et al., 2020): as deep as BERT-large, with bottleneck blocks.

- the width inside a block is a quarter of the width between blocks; a block has four feed-forwards in sequence
- an affine map without statistics (NoNorm) replaces LayerNorm, ReLU replaces GELU
- the embedding combines each word with both neighbours (trigram), from a table of a quarter of the width
- the released model has no pooler: pool="first" is the default; pool="pooler" is BERT's

Deviation: the missing neighbours of the first and the last word are zeros in every batch. In transformers, the word
after the last one of a shorter text is the padding token; once its embedding is not zero, the vectors of a text depend
on whether it was padded.
"""

from dataclasses import dataclass

from pydantic import PositiveInt

from patchword.layers import TEXT_POSITIONS, Attention, Encoder, FeedForward, Norm, Pattern, Residual
from patchword.layers.heads.text import MLMTransform
from patchword.layers.text.bottleneck import Bottleneck, BottleneckProjection, NoNorm, PartlyTied, Trigram
from patchword.layers.text.model import TextEmbedding, TextModel
from patchword.models.registry import Family, Probability, Variant
from patchword.models.text.bert import BertConfig, assembled, words
from patchword.models.text.config import ActivationName, PoolName
from patchword.models.text.parts import ACTIVATIONS, text_head


@dataclass(frozen=True, kw_only=True)
class MobileBertConfig(BertConfig):
    """Sizes of a MobileBERT."""

    width: PositiveInt = 512
    depth: PositiveInt = 24
    heads: PositiveInt = 4
    hidden: PositiveInt = 512
    bottleneck: PositiveInt | None = None  # width inside a block; None is a quarter of the width
    embedding: PositiveInt | None = None  # width of the word embeddings; None is a quarter of the width
    feed_forwards: PositiveInt = 4  # per block
    activation: ActivationName = "relu"
    pool: PoolName = "first"
    dropout: Probability = 0.0

    @property
    def narrow(self) -> int:
        return self.bottleneck or self.width // 4

    @property
    def table(self) -> int:
        return self.embedding or self.width // 4


def build(c: MobileBertConfig) -> TextModel:
    embedding = TextEmbedding(
        c.vocabulary,
        c.width,
        c.max_length,
        NoNorm(c.width),
        words=c.table,
        segments=c.segments,
        position=TEXT_POSITIONS[c.position],
        dropout=c.dropout,
        gather=Trigram(c.table, c.width),
    )
    return assembled(embedding, Encoder(block(c) for _ in range(c.depth)), text_head(c, lambda: word_scores(c)))


def block(c: MobileBertConfig) -> Bottleneck:
    projection = BottleneckProjection(c.width, c.narrow)
    pattern = Pattern(position=TEXT_POSITIONS[c.position].in_attention(c.narrow, c.heads))
    attention = Attention(c.narrow, c.heads, projection=projection, patterns=[pattern], dropout=c.attention_dropout)
    names = (*(f"feed_forward_{number}" for number in range(1, c.feed_forwards)), "feed_forward")
    residuals = {"attention": Residual(attention, NoNorm(c.narrow), Norm.POST)}
    for name in names:
        feed_forward = FeedForward(c.narrow, c.hidden, ACTIVATIONS[c.activation]())
        residuals[name] = Residual(feed_forward, NoNorm(c.narrow), Norm.POST)
    return Bottleneck(c.width, c.narrow, NoNorm(c.width), residuals, c.dropout)


def word_scores(c: MobileBertConfig) -> MLMTransform:
    """BERT's transform, with a LayerNorm; the embeddings are narrower than the tokens; an extra matrix extends them."""
    found = words(c)
    if c.tied:
        found.output = PartlyTied(c.vocabulary, c.width - c.table)
    return found


FAMILY = Family(
    name="mobilebert",
    title="MobileBERT",
    paper="arXiv:2004.02984",
    build=build,
    variants={"": Variant(MobileBertConfig(), 24_581_888, 2_692_743_168)},  # without a pooler; MACs of 128 tokens
)
