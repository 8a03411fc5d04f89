"""Big Bird (Zaheer et al., 2020): BERT with sparse attention for 4096 tokens; its cost is linear in the length.

Attention is block-sparse: the first and the last block are global, each block attends to its neighbours and to a few
random blocks (`layers/attention/block_sparse.py`). Batches of up to 704 tokens use full attention. The last block and
the random blocks follow from the padded length of a batch, so the vectors of a text may depend on the longest text of
its batch.

- random="seeded", the default: the authors' random blocks, in training and evaluation. random="huggingface": what
  transformers does in evaluation: no random blocks, and the first block counts 1 + 3 times
- "classes" has its own linear map and GELU over [CLS]; "span" has one more feed-forward before its two logits

Deviations: the dropout of the embedding is after its norm, as in BERT, not before it. The span head of transformers
lowers the logits of the question's tokens by a million; here the answer search considers the passage only.
"""

from dataclasses import dataclass
from typing import cast

from pydantic import PositiveInt
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.scope import Scope
from patchword.core.text import Text
from patchword.layers import Attention, Encoder, FeedForward, Pattern, Pooler
from patchword.layers.attention.block_sparse import BlockSparse, RandomBlocks
from patchword.layers.dropout import Dropout
from patchword.layers.text.model import TextModel
from patchword.models.registry import Family, Variant
from patchword.models.text.bert import BertConfig, assembled, block, embedding, words
from patchword.models.text.config import ActivationName
from patchword.models.text.parts import ACTIVATIONS, norm, text_head


@dataclass(frozen=True, kw_only=True)
class BigBirdConfig(BertConfig):
    """Sizes of a Big Bird."""

    vocabulary: PositiveInt = 50358
    max_length: PositiveInt = 4096
    activation: ActivationName = "gelu-tanh"
    block: PositiveInt = 64  # tokens per block
    random_blocks: PositiveInt = 3  # per block and head
    random: RandomBlocks = "seeded"


class AnswerHead(nn.Module):
    """Logits for start and end of an answer, after one more feed-forward."""

    def __init__(self, c: BigBirdConfig) -> None:
        super().__init__()
        self.dropout, self.norm = Dropout(c.dropout), norm(c)
        self.feed_forward = FeedForward(c.width, c.hidden, ACTIVATIONS[c.activation]())
        self.linear = nn.Linear(c.width, 2)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, 2)"""
        more = self.dropout(self.feed_forward(self.dropout(tokens), Scope()))
        return cast(Tensor, self.linear(self.norm(tokens + more)))


def build(c: BigBirdConfig) -> TextModel:
    encoder = Encoder(block(c, attention(c, layer)) for layer in range(c.depth))
    head = AnswerHead(c) if c.head == "span" else text_head(c, lambda: words(c), lambda: pooler(c))
    return assembled(embedding(c, segments=c.segments), encoder, head)


def attention(c: BigBirdConfig, layer: int) -> Attention:
    if c.position == "shaw":
        raise UserError(
            "block-sparse attention supports no position encoding inside attention",
            expected="a position encoding of the input tokens",
            got="position 'shaw'",
        )
    partition = BlockSparse(layer, c.block, c.random_blocks, c.max_length, c.random)
    return Attention(c.width, c.heads, patterns=[Pattern(partition)], dropout=c.attention_dropout)


def pooler(c: BigBirdConfig) -> nn.Module:
    return Pooler(c.width, ACTIVATIONS[c.activation](), c.dropout) if c.head == "classes" else Pooler(c.width)


FAMILY = Family(
    name="bigbird",
    title="Big Bird",
    paper="arXiv:2007.14062",
    build=build,
    variants={  # MACs of 128 tokens, with full attention
        "base": Variant(BigBirdConfig(), 127_468_800, 11_174_215_680),
        "large": Variant(BigBirdConfig(width=1024, depth=24, heads=16, hidden=4096), 359_123_968, 39_461_060_608),
    },
)
