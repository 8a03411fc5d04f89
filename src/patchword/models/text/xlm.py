"""XLM (Conneau and Lample, 2019): BERT over several languages, with a language embedding per token.

Language ids replace segments, words are predicted by the embedding table alone, and there is no pooler: the class head
reads the first token.
"""

from dataclasses import dataclass

from pydantic import NonNegativeInt, PositiveInt

from patchword.layers import Encoder, NoTransform
from patchword.layers.text.model import TextModel
from patchword.models.registry import Family, Variant
from patchword.models.text.bert import assembled, block, embedding
from patchword.models.text.config import HeadName, PoolName, TextConfig
from patchword.models.text.parts import output_layer, text_head


@dataclass(frozen=True, kw_only=True)
class XlmConfig(TextConfig):
    """Sizes of an XLM."""

    vocabulary: PositiveInt = 95000
    width: PositiveInt = 1024
    heads: PositiveInt = 8
    hidden: PositiveInt = 4096
    languages: NonNegativeInt = 15  # 0: no language embedding
    head: HeadName = "tokens"
    pool: PoolName = "first"


def build(c: XlmConfig) -> TextModel:
    head = text_head(c, lambda: NoTransform(output_layer(c)))
    encoder = Encoder(block(c) for _ in range(c.depth))
    return assembled(embedding(c, languages=c.languages), encoder, head)


def _wide(depth: int, width: int, heads: int, vocabulary: int, languages: int) -> XlmConfig:
    return XlmConfig(
        depth=depth, width=width, heads=heads, hidden=4 * width, vocabulary=vocabulary, languages=languages
    )


FAMILY = Family(
    name="xlm",
    title="XLM",
    paper="arXiv:1901.07291",
    build=build,
    variants={
        "tlm-xnli15": Variant(XlmConfig(), 248_976_384, 19_730_006_016),
        "ende": Variant(_wide(6, 1024, 8, 64699, 2), 142_357_504, 9_865_003_008),
        "en": Variant(_wide(12, 2048, 16, 30145, 0), 667_088_896, 78_114_717_696),
        "100": Variant(_wide(16, 1280, 16, 200000, 0), 571_496_960, 40_936_407_040),
    },
)
