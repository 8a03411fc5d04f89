"""TinyBERT (Jiao et al., 2019): a small BERT that imitates its teacher's attention and states layer by layer.

The authors' class head reads the ReLU of the pooled vector; pool="pooler-relu" is theirs, "pooler" BERT's own.
"""

from dataclasses import dataclass

from patchword.models.registry import Family, Variant
from patchword.models.text.bert import BertConfig, build


@dataclass(frozen=True, kw_only=True)
class TinyBertConfig(BertConfig):
    """Sizes of a TinyBERT."""


FAMILY = Family(
    name="tinybert",
    title="TinyBERT",
    paper="arXiv:1909.10351",
    build=build,
    variants={
        "4-312": Variant(TinyBertConfig(depth=4, width=312, heads=12, hidden=1200), 14_350_248, 623_737_920),
        "6-768": Variant(TinyBertConfig(depth=6), 66_955_008, 5_587_402_752),
    },
)
