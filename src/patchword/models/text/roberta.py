"""RoBERTa (Liu et al., 2019): BERT, trained longer on more text, without next-sentence prediction, with byte-level BPE.

Differences in the model: positions start at row 2 of their table, there are no segments, and the class head also has
dropout before the pooler. XLM-R (Conneau et al., 2019) is the same over a vocabulary of 100 languages.
"""

from dataclasses import dataclass

from pydantic import PositiveFloat, PositiveInt

from patchword.layers import Encoder, Pooler
from patchword.layers.text.model import TextModel
from patchword.models.registry import Family, Variant
from patchword.models.text.bert import BertConfig, assembled, block, embedding, words
from patchword.models.text.parts import text_head

FIRST = 2  # rows 0 and 1 are unused: fairseq starts after its padding id


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(BertConfig):
    """Sizes of a RoBERTa."""

    vocabulary: PositiveInt = 50265
    segments: PositiveInt = 1
    norm_eps: PositiveFloat = 1e-5


def build(c: RobertaConfig) -> TextModel:
    head = text_head(c, lambda: words(c), lambda: Pooler(c.width, dropout=c.dropout if c.head == "classes" else 0.0))
    return assembled(embedding(c, segments=c.segments, first=FIRST), Encoder(block(c) for _ in range(c.depth)), head)


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
