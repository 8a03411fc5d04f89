"""DistilBERT (Sanh et al., 2019): every second block of BERT, distilled from the full model.

There are no segments and no pooler; the class head has a linear map with ReLU instead.
"""

from dataclasses import dataclass

from pydantic import PositiveInt
from torch import nn

from patchword.layers import Encoder, Pooler
from patchword.layers.text.model import TextModel
from patchword.models.registry import Family, Variant
from patchword.models.text.bert import assembled, block, embedding, words
from patchword.models.text.config import HeadName, TextConfig
from patchword.models.text.parts import text_head


@dataclass(frozen=True, kw_only=True)
class DistilBertConfig(TextConfig):
    """Sizes of a DistilBERT."""

    depth: PositiveInt = 6
    head: HeadName = "tokens"


def build(c: DistilBertConfig) -> TextModel:
    head = text_head(c, lambda: words(c), lambda: Pooler(c.width, nn.ReLU()))
    return assembled(embedding(c), Encoder(block(c) for _ in range(c.depth)), head)


FAMILY = Family(
    name="distilbert",
    title="DistilBERT",
    paper="arXiv:1910.01108",
    build=build,
    variants={
        "base": Variant(DistilBertConfig(), 66_362_880, 5_586_812_928),
        "base-multilingual": Variant(DistilBertConfig(vocabulary=119547), 134_734_080, 5_586_812_928),
    },
)
