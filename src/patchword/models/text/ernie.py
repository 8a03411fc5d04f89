"""ERNIE 1.0 (Sun et al., 2019): BERT, pretrained with whole phrases and named entities masked together.

The model is BERT with ReLU and a vocabulary of Chinese characters; only the masking is new. Checkpoints of versions 2.0
and 3.0 in transformers add an embedding of the pretraining task, which is task 0 wherever none is given, as here.
"""

from dataclasses import dataclass
from typing import cast

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn

from patchword.core.text import Text
from patchword.layers import Encoder
from patchword.layers.text.model import TextModel
from patchword.models.registry import Family, Variant
from patchword.models.text.bert import BertConfig, assembled, block, embedding, words
from patchword.models.text.config import ActivationName
from patchword.models.text.parts import text_head


@dataclass(frozen=True, kw_only=True)
class ErnieConfig(BertConfig):
    """Sizes of an ERNIE."""

    vocabulary: PositiveInt = 18000
    max_length: PositiveInt = 513
    activation: ActivationName = "relu"
    norm_eps: PositiveFloat = 1e-5
    tasks: NonNegativeInt = 0  # number of pretraining tasks with an embedding; 0: none


class TaskEmbedding(nn.Module):
    """Adds the vector of task 0 to all words."""

    def __init__(self, tasks: int, width: int) -> None:
        super().__init__()
        self.tasks = nn.Embedding(tasks, width)

    def forward(self, words: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        return words + cast(Tensor, self.tasks(text.ids.new_zeros(1, 1)))


def build(c: ErnieConfig) -> TextModel:
    tasks = TaskEmbedding(c.tasks, c.width) if c.tasks else None
    head = text_head(c, lambda: words(c))
    return assembled(embedding(c, segments=c.segments, gather=tasks), Encoder(block(c) for _ in range(c.depth)), head)


FAMILY = Family(
    name="ernie",
    title="ERNIE 1.0",
    paper="arXiv:1904.09223",
    build=build,
    variants={"base": Variant(ErnieConfig(), 99_866_112, 11_174_215_680)},
)
