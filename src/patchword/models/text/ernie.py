"""ERNIE 1.0 (Sun et al., 2019): BERT, pretrained with whole phrases and named entities masked together.

The model is BERT with ReLU and a vocabulary of Chinese characters; only the masking is new.
"""

from dataclasses import dataclass

from pydantic import PositiveFloat, PositiveInt

from patchword.models.registry import Family, Variant
from patchword.models.text.bert import BertConfig, build
from patchword.models.text.config import ActivationName


@dataclass(frozen=True, kw_only=True)
class ErnieConfig(BertConfig):
    """Sizes of an ERNIE."""

    vocabulary: PositiveInt = 18000
    max_length: PositiveInt = 513
    activation: ActivationName = "relu"
    norm_eps: PositiveFloat = 1e-5


FAMILY = Family(
    name="ernie",
    title="ERNIE 1.0",
    paper="arXiv:1904.09223",
    build=build,
    variants={"base": Variant(ErnieConfig(), 99_866_112, 11_174_215_680)},
)
