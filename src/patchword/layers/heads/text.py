"""Heads of text models, called with (tokens, text, table): last tokens, batch, word embedding table."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.text import Text
from patchword.kernels.linear_cross_entropy.operation import TokenLosses as TokenLosses
from patchword.kernels.linear_cross_entropy.operation import linear_cross_entropy
from patchword.kernels.linear_cross_entropy.operation import token_losses as token_losses


class Pooler(nn.Module):
    """tanh(linear(first token)); DistilBERT uses ReLU instead of tanh. dropout: before the linear map"""

    def __init__(self, width: int, activation: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, width)
        self.activation = activation or nn.Tanh()

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return cast(Tensor, self.activation(self.linear(self.dropout(text.first(tokens)))))


class FirstToken(nn.Module):
    """Selects the first token, [CLS]."""

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return text.first(tokens)


class LastToken(nn.Module):
    """Selects the last token: in a causal model the only one that attends to the whole text."""

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return text.last(tokens)


class MeanPool(nn.Module):
    """Mean of the tokens of each text, as in sentence embeddings."""

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return text.mean(tokens)


class Tokens(nn.Module):
    """Returns the tokens unchanged: the bare encoder."""

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        return tokens


class PooledHead(nn.Module):
    """One pooled vector per text."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return cast(Tensor, self.pool(tokens, text))


class EmbeddingHead(nn.Module):
    """One vector of length 1 per text, so that dot products are cosine similarities."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return F.normalize(self.pool(tokens, text), dim=-1)


class SequenceHead(nn.Module):
    """Logits per text or pair of texts: classes, several labels at once, or one number."""

    def __init__(self, pool: nn.Module, width: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.pool, self.dropout = pool, nn.Dropout(dropout)
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, classes)"""
        return cast(Tensor, self.linear(self.dropout(self.pool(tokens, text))))


class TokenClassificationHead(nn.Module):
    """Logits per token: tags, or the two logits that an answer starts or ends at this token."""

    def __init__(self, width: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, classes)"""
        return cast(Tensor, self.linear(self.dropout(tokens)))


class TiedLinear(nn.Module):
    """Logits over the vocabulary; the word embedding table is the weight matrix.

    A subclass that overrides `forward` overrides `losses`, too.
    """

    def __init__(self, vocabulary: int, bias: bool = True) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    def forward(self, tokens: Tensor, table: Tensor) -> Tensor:
        """(..., width) -> (..., vocabulary)"""
        return F.linear(tokens, table, self.bias)

    def losses(self, tokens: Tensor, table: Tensor, targets: Tensor) -> TokenLosses:
        """The losses of the logits, without holding all logits in memory where a kernel can run."""
        return linear_cross_entropy(tokens, table, self.bias, targets)


class UntiedLinear(nn.Module):
    """Logits over the vocabulary from a matrix of its own; the word embedding table is not used."""

    def __init__(self, width: int, vocabulary: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(width, vocabulary, bias)

    def forward(self, tokens: Tensor, table: Tensor) -> Tensor:
        """(..., width) -> (..., vocabulary)"""
        return cast(Tensor, self.linear(tokens))


class MLMTransform(nn.Module):
    """BERT's head for masked words: output(norm(activation(transform(x)))), computed at `predict_at` only."""

    def __init__(self, transform: nn.Module, activation: nn.Module, norm: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.transform, self.activation, self.norm, self.output = transform, activation, norm, output

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor | TokenLosses:
        """(batch, tokens, width) -> (count, vocabulary), or (batch, tokens, vocabulary) without `predict_at`"""
        return _logits_or_losses(
            self.output, self.norm(self.activation(self.transform(_select(tokens, text)))), text, table
        )


class NoTransform(nn.Module):
    """Logits from the output matrix alone, without a transform, as GPT has them."""

    def __init__(self, output: nn.Module) -> None:
        super().__init__()
        self.output = output

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor | TokenLosses:
        """(batch, tokens, width) -> (count, vocabulary), or (batch, tokens, vocabulary) without `predict_at`"""
        return _logits_or_losses(self.output, _select(tokens, text), text, table)


def _logits_or_losses(output: nn.Module, vectors: Tensor, text: Text, table: Tensor) -> Tensor | TokenLosses:
    """Return the logits, or the losses if the text has targets."""
    if text.targets is None:
        return cast(Tensor, output(vectors, table))
    if isinstance(output, TiedLinear):
        return output.losses(vectors, table, text.targets)
    return token_losses(output(vectors, table), text.targets)


def _select(tokens: Tensor, text: Text) -> Tensor:
    return tokens if text.predict_at is None else tokens.flatten(0, 1)[text.predict_at]


class LMHead(nn.Module):
    """Language-model head: masked words, or the next words of a causal model."""

    def __init__(self, words: nn.Module) -> None:
        super().__init__()
        self.words = words

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor | TokenLosses:
        """(batch, tokens, width) -> (count, vocabulary), or the losses if the text has targets"""
        return cast(Tensor | TokenLosses, self.words(tokens, text, table))


class PretrainingHead(nn.Module):
    """BERT's two objectives: masked words, and whether the second sentence follows the first (0) or not (1).

    ALBERT predicts instead whether the two sentences are in their original order (0) or swapped (1).
    """

    def __init__(self, words: nn.Module, pool: nn.Module, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.words, self.pool, self.dropout = words, pool, nn.Dropout(dropout)
        self.linear = nn.Linear(width, 2)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> tuple[Tensor | TokenLosses, Tensor]:
        """Return (count, vocabulary), or the losses, and (texts, 2)."""
        return self.words(tokens, text, table), self.linear(self.dropout(self.pool(tokens, text)))


def split_objectives(output: Tensor | tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
    """Return the logits of the words, and those of the second objective if the head is a PretrainingHead."""
    return output if isinstance(output, tuple) else (output, None)
