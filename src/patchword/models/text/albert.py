"""ALBERT (Lan et al., 2019): BERT with weights shared by all blocks and factorized embeddings.

Word, position and segment embeddings have 128 channels and are projected to the width after their norm; one block runs
`depth` times; the second pretraining objective is the order of two sentences.

groups > 1 is the paper's section 4.5: the depth is divided into groups of layers, each with weights of its own; a layer
is then a sequence of `blocks_per_group` blocks.
"""

from dataclasses import dataclass

from pydantic import PositiveInt
from torch import nn

from patchword.layers import TEXT_POSITIONS, Encoder
from patchword.layers.text.model import TextEmbedding, TextModel
from patchword.models.registry import Family, Probability, Variant
from patchword.models.text.bert import BertConfig, assembled, block, words
from patchword.models.text.config import ActivationName
from patchword.models.text.parts import norm, text_head


@dataclass(frozen=True, kw_only=True)
class AlbertConfig(BertConfig):
    """Sizes of an ALBERT."""

    vocabulary: PositiveInt = 30000
    embedding: PositiveInt = 128  # width of the embeddings
    activation: ActivationName = "gelu-tanh"
    dropout: Probability = 0.0  # as in version 2 of the weights
    attention_dropout: Probability = 0.0
    groups: PositiveInt = 1  # of layers that share their weights
    blocks_per_group: PositiveInt = 1  # with weights of their own, run in sequence as one layer


def build(c: AlbertConfig) -> TextModel:
    embedding = TextEmbedding(
        c.vocabulary,
        c.embedding,
        c.max_length,
        norm(c, c.embedding),
        segments=c.segments,
        position=TEXT_POSITIONS[c.position],
        dropout=c.dropout,
        widen=nn.Linear(c.embedding, c.width),
    )
    encoder = Encoder((block(c) for _ in range(c.groups * c.blocks_per_group)), order=order(c))
    return assembled(embedding, encoder, text_head(c, lambda: words(c, c.embedding), dropout=c.dropout))


def order(c: AlbertConfig) -> list[int]:
    """Return the indices of the blocks in the order in which they run.

    >>> order(AlbertConfig(depth=4, groups=2))
    [0, 0, 1, 1]
    >>> order(AlbertConfig(depth=2, groups=1, blocks_per_group=2))
    [0, 1, 0, 1]
    """
    groups = [int(layer / (c.depth / c.groups)) for layer in range(c.depth)]  # rounds as transformers does
    return [group * c.blocks_per_group + block for group in groups for block in range(c.blocks_per_group)]


FAMILY = Family(
    name="albert",
    title="ALBERT",
    paper="arXiv:1909.11942",
    build=build,
    variants={
        "base": Variant(AlbertConfig(), 11_683_584, 11_186_798_592),
        "large": Variant(AlbertConfig(width=1024, depth=24, heads=16, hidden=4096), 17_683_968, 39_477_837_824),
        "xlarge": Variant(AlbertConfig(width=2048, depth=24, heads=16, hidden=8192), 58_724_864, 156_267_184_128),
        "xxlarge": Variant(AlbertConfig(width=4096, depth=12, heads=64, hidden=16384), 222_595_584, 310_932_144_128),
    },
)
