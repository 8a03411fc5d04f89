"""Parts that the text families share: heads by name, and activations."""

from collections.abc import Callable

from torch import nn

from patchword.core.errors import UserError
from patchword.layers import Gelu
from patchword.layers.heads.text import (
    EmbeddingHead,
    FirstToken,
    LastToken,
    LMHead,
    MeanPool,
    PooledHead,
    Pooler,
    PretrainingHead,
    SequenceHead,
    TiedLinear,
    TokenClassificationHead,
    Tokens,
    UntiedLinear,
)
from patchword.models.text.config import TextConfig

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": Gelu,
    "gelu-tanh": lambda: nn.GELU(approximate="tanh"),
    "relu": nn.ReLU,
    "silu": nn.SiLU,
}


def norm(c: TextConfig, width: int | None = None) -> nn.LayerNorm:
    return nn.LayerNorm(width or c.width, c.norm_eps)


def output_layer(c: TextConfig, width: int | None = None, bias: bool = True) -> nn.Module:
    """Return the layer that scores the vocabulary. width: of its input, if not that of the model"""
    return TiedLinear(c.vocabulary, bias) if c.tied else UntiedLinear(width or c.width, c.vocabulary, bias)


def text_head(
    c: TextConfig, words: Callable[[], nn.Module], pooler: Callable[[], nn.Module] | None = None, dropout: float = 0.0
) -> nn.Module:
    """Build the head that the config names.

    words: the part that predicts words. pooler: makes one vector per text, if not BERT's. dropout: before the last
    linear map of the pretraining head.
    """

    def pool() -> nn.Module:
        match c.pool:
            case "first":
                return FirstToken()
            case "last":
                return LastToken()
            case "mean":
                return MeanPool()
            case "pooler-relu":  # the authors of TinyBERT
                return Pooler(c.width, nn.Sequential(nn.Tanh(), nn.ReLU()))
            case "pooler":
                return pooler() if pooler else Pooler(c.width)

    match c.head:
        case "tokens":
            return Tokens()
        case "pooled":
            return PooledHead(pool())
        case "vector":
            return EmbeddingHead(pool())
        case "words":
            return LMHead(words())
        case "next":
            return SequenceHead(pool(), c.width, 2)
        case "pretraining":
            return PretrainingHead(words(), pool(), c.width, dropout)
        case "classes":
            return SequenceHead(pool(), c.width, _classes(c), c.dropout)
        case "tags":
            return TokenClassificationHead(c.width, _classes(c), c.dropout)
        case "span":
            return TokenClassificationHead(c.width, 2)


def _classes(c: TextConfig) -> int:
    if not c.classes:
        raise UserError(f"head {c.head!r} needs field 'classes'", expected="e.g. classes=2", got="classes=0")
    return c.classes
