"""Translation by LSTMs (Sutskever et al., 2014; Bahdanau et al., 2014; Luong et al., 2015), as before the Transformer.

The encoder is bidirectional; the decoder attends to its output. `attention` selects the score function:
- "none": the decoder's initial state is all that it knows of the source
- "dot": the dot product of the decoder's state and each source token
- "multiplicative": the same with a matrix between the two ("general" of Luong et al.)
- "additive": a small MLP of both (Bahdanau et al.)

As in Luong et al., attention follows the LSTM, so that training runs over all words of a target at once.
Deviation: there is no input feeding; the target embeddings are also the output matrix.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import nn

from patchword.layers import (
    Additive,
    AdditiveProjection,
    Attention,
    BidirectionalLstm,
    Bridge,
    FromMemory,
    MemoryAttention,
    MultiplicativeProjection,
    NoTransform,
    RecurrentTranslator,
    TiedLinear,
    TokenEmbedding,
)
from patchword.layers.init import xavier
from patchword.layers.random_values import normal
from patchword.models.registry import Family, Probability, Variant
from patchword.models.seq2seq.transformer import PairConfig


@dataclass(frozen=True, kw_only=True)
class LstmConfig(PairConfig):
    """Sizes of an LSTM encoder-decoder. width: of embeddings, decoder state, and both encoder directions together."""

    depth: PositiveInt = 1
    attention: Literal["none", "dot", "multiplicative", "additive"] = "dot"
    dropout: Probability = 0.3


def build(c: LstmConfig) -> RecurrentTranslator:
    between = c.dropout if c.depth > 1 else 0.0
    model = RecurrentTranslator(
        embedding(c, c.vocabulary),
        embedding(c, c.target_vocabulary) if c.target_vocabulary else None,
        BidirectionalLstm(c.width, c.width, c.depth, c.dropout),
        Bridge(c.width, c.depth),
        nn.LSTM(c.width, c.width, c.depth, batch_first=True, dropout=between),
        None if c.attention == "none" else MemoryAttention(c.width, attention(c)),
        NoTransform(TiedLinear(c.target_vocabulary or c.vocabulary)),
        c.dropout,
    )
    initialize(model)
    return model


def embedding(c: LstmConfig, vocabulary: int) -> TokenEmbedding:
    return TokenEmbedding(vocabulary, c.width, c.max_length, dropout=c.dropout)


def attention(c: LstmConfig) -> Attention:
    if c.attention == "additive":
        return Attention(c.width, 1, projection=AdditiveProjection(c.width), core=Additive(c.width))
    projection = MultiplicativeProjection(c.width) if c.attention == "multiplicative" else FromMemory()
    return Attention(c.width, 1, projection=projection, scale=1.0)


@torch.no_grad()
def initialize(model: nn.Module) -> None:
    """Initialize: Xavier matrices, orthogonal recurrent matrices, zero biases but 1 for the forget gates;
    embeddings N(0, 1 / width)."""
    xavier(model)
    for module in model.modules():
        if isinstance(module, nn.LSTM):
            for name, parameter in module.named_parameters():
                if name.startswith("bias"):
                    nn.init.zeros_(parameter)
                    size = module.hidden_size
                    parameter[size : 2 * size] = 1.0 if name.startswith("bias_ih") else 0.0
                    continue
                for gate in parameter.chunk(4):
                    (nn.init.orthogonal_ if name.startswith("weight_hh") else nn.init.xavier_uniform_)(gate)
        elif isinstance(module, nn.Embedding):
            normal(module.weight, std=module.embedding_dim**-0.5)


FAMILY = Family(
    name="lstm-translation",
    title="LSTM encoder-decoder",
    paper="arXiv:1508.04025",
    build=build,
    variants={  # MACs of 32 source and 32 target tokens
        "small": Variant(LstmConfig(width=256), 3_754_512, 116_129_792),
        "base": Variant(LstmConfig(depth=2), 14_061_840, 417_595_392),
    },
    read="pairs",
)
