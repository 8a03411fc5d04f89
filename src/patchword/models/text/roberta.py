"""RoBERTa (Liu et al., 2019): BERT, trained longer on more text, without next-sentence prediction, with byte-level BPE.

Differences in the model: positions start after the padding id, and skip padding; there are no segments, the class head
also has dropout before the pooler, and the head for masked words has GELU whatever the activation of the blocks is.
XLM-R (Conneau et al., 2019) is the same over a vocabulary of 100 languages, CamemBERT (Martin et al., 2019) over one of
French.
"""

from dataclasses import dataclass

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn

from patchword.core.text import Text
from patchword.layers import TEXT_POSITIONS, Encoder, Gelu, Pooler, TextEmbedding
from patchword.layers.heads.text import MLMTransform
from patchword.layers.text.model import TextModel
from patchword.models.registry import Family, Variant
from patchword.models.text.bert import BertConfig, assembled, block
from patchword.models.text.parts import norm, output_layer, text_head


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(BertConfig):
    """Sizes of a RoBERTa."""

    vocabulary: PositiveInt = 50265
    segments: PositiveInt = 1
    norm_eps: PositiveFloat = 1e-5
    padding: NonNegativeInt = 1  # id of the padding token: positions start at the next row of their table


class RobertaEmbedding(TextEmbedding):
    """Positions of a padded batch are counted by its mask; padding has the row before the first position."""

    def token_positions(self, text: Text) -> Tensor:
        found = super().token_positions(text)
        if text.mask is None or text.positions is not None or text.packed is not None:
            return found
        return text.mask.cumsum(1) * text.mask - 1


def build(c: RobertaConfig) -> TextModel:
    head = text_head(c, lambda: words(c), lambda: Pooler(c.width, dropout=c.dropout if c.head == "classes" else 0.0))
    embedding = RobertaEmbedding(
        c.vocabulary,
        c.width,
        c.max_length,
        norm(c),
        position=TEXT_POSITIONS[c.position],
        dropout=c.dropout,
        segments=c.segments,
        first=c.padding + 1,
    )
    return assembled(embedding, Encoder(block(c) for _ in range(c.depth)), head)


def words(c: RobertaConfig) -> MLMTransform:
    """A linear map, GELU and norm, then the word embeddings as output matrix."""
    return MLMTransform(nn.Linear(c.width, c.width), Gelu(), norm(c), output_layer(c))


def _large(vocabulary: int) -> RobertaConfig:
    return RobertaConfig(width=1024, depth=24, heads=16, hidden=4096, vocabulary=vocabulary)


FAMILY = Family(
    name="roberta",
    title="RoBERTa",
    paper="arXiv:1907.11692",
    build=build,
    variants={
        "base": Variant(RobertaConfig(), 124_645_632, 11_174_215_680),
        "large": Variant(_large(50265), 355_359_744, 39_461_060_608),
        "distil": Variant(RobertaConfig(depth=6), 82_118_400, 5_587_402_752),
        "xlm-base": Variant(RobertaConfig(vocabulary=250002), 278_043_648, 11_174_215_680),
        "xlm-large": Variant(_large(250002), 559_890_432, 39_461_060_608),
    },
)
