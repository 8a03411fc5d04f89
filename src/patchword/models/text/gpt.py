"""GPT (Radford et al., 2018): post-norm blocks with causal attention: a token attends to itself and those before it.

It predicts the next word at every position at once, and generates a text word by word. The embeddings have no norm; the
word embeddings are also the output matrix, without a bias.

Heads: "words", the next word at every position, and BERT's "tokens", "pooled", "vector", "classes", "tags" and "span".
Only the last token attends to the whole text, so `pool` is "last" or "mean".
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt
from torch import nn

from patchword.layers import (
    TEXT_POSITIONS,
    Attention,
    Block,
    Causal,
    Encoder,
    FeedForward,
    Norm,
    NoTransform,
    Pattern,
    Residual,
)
from patchword.layers.heads.text import SequenceHead
from patchword.layers.random_values import normal
from patchword.layers.text.model import TextEmbedding, TextModel
from patchword.models.registry import Family, Variant
from patchword.models.text.config import ActivationName, TextConfig
from patchword.models.text.parts import ACTIVATIONS, norm, output_layer, text_head


@dataclass(frozen=True, kw_only=True)
class GptConfig(TextConfig):
    """Sizes of a GPT."""

    vocabulary: PositiveInt = 40478
    head: Literal["words", "tokens", "pooled", "vector", "classes", "tags", "span"] = "words"
    pool: Literal["last", "mean"] = "last"
    norm_eps: float = 1e-5
    activation: ActivationName = "gelu-tanh"
    padding: NonNegativeInt | None = None  # id of the padding token, by which transformers finds the last token


def build(c: GptConfig) -> TextModel:
    encoder = Encoder(block(c, Norm.POST) for _ in range(c.depth))
    model = TextModel(embedding(c, nn.Identity()), encoder, head(c))
    begin(model)
    return model


def embedding(c: GptConfig, norm: nn.Module) -> TextEmbedding:
    position = TEXT_POSITIONS[c.position]
    return TextEmbedding(c.vocabulary, c.width, c.max_length, norm, position=position, dropout=c.dropout)


def block(c: GptConfig, where: Norm, scale: float | None = None) -> Block:
    """scale: of the scores of attention, if not 1 / sqrt(width of a head)"""
    feed_forward = FeedForward(c.width, c.hidden, ACTIVATIONS[c.activation]())
    return Block(
        attention=Residual(attention(c, scale), norm(c), where, dropout=c.dropout),
        feed_forward=Residual(feed_forward, norm(c), where, dropout=c.dropout),
    )


def attention(c: GptConfig, scale: float | None = None) -> Attention:
    pattern = Pattern(Causal(), TEXT_POSITIONS[c.position].in_attention(c.width, c.heads))
    return Attention(c.width, c.heads, patterns=[pattern], scale=scale, dropout=c.attention_dropout)


def head(c: GptConfig) -> nn.Module:
    """softmax(h W): words and classes have no bias (equations 2 and 3 of the paper)."""
    found = text_head(c, lambda: NoTransform(output_layer(c, bias=False)))
    if c.head == "classes" and isinstance(found, SequenceHead):
        found.linear = nn.Linear(c.width, c.classes, bias=False)
    return found


def begin(model: nn.Module, branches: int = 1) -> None:
    """Initialize with N(0, 0.02) for matrices and embeddings; zero biases.

    branches: the number of residual branches; GPT-2 divides the last matrix of each by its square root.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            normal(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for module in model.modules():
        if isinstance(module, Attention):
            normal(module.output.weight, std=0.02 * branches**-0.5)
        elif isinstance(module, FeedForward):
            normal(module.down.weight, std=0.02 * branches**-0.5)


FAMILY = Family(
    name="gpt",
    title="GPT",
    paper="Radford et al., 2018",
    build=build,
    variants={"": Variant(GptConfig(), 116_534_784, 15_152_775_168)},  # including the head "words"; MACs of 128 tokens
)
