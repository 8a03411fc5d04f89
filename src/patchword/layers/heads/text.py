"""Heads of text models. Each reads (tokens, text, table): the last tokens, the batch, and the table of words."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.text import Text
from patchword.kernels.linear_cross_entropy.operation import TokenLosses as TokenLosses
from patchword.kernels.linear_cross_entropy.operation import linear_cross_entropy
from patchword.kernels.linear_cross_entropy.operation import token_losses as token_losses


class Pooler(nn.Module):
    """tanh of a linear map of the first token, [CLS]; DistilBERT has ReLU in its place. dropout: before the map"""

    def __init__(self, width: int, activation: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, width)
        self.activation = activation or nn.Tanh()

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return cast(Tensor, self.activation(self.linear(self.dropout(text.first(tokens)))))


class FirstToken(nn.Module):
    """[CLS] as it is."""

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return text.first(tokens)


class LastToken(nn.Module):
    """The last token as it is: of a causal model the only one that has read the whole text."""

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return text.last(tokens)


class MeanPool(nn.Module):
    """The mean of all tokens of a text, as sentence vectors are made."""

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return text.mean(tokens)


class Tokens(nn.Module):
    """The tokens themselves: the bare encoder."""

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) as they are"""
        return tokens


class PooledHead(nn.Module):
    """One vector a text, as its pool makes it."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return cast(Tensor, self.pool(tokens, text))


class EmbeddingHead(nn.Module):
    """One vector of length 1 a text, so that products are cosines."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return F.normalize(self.pool(tokens, text), dim=-1)


class SequenceHead(nn.Module):
    """Scores for a whole text or a pair of them: classes, labels that may hold together, or one number."""

    def __init__(self, pool: nn.Module, width: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.pool, self.dropout = pool, nn.Dropout(dropout)
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, classes)"""
        return cast(Tensor, self.linear(self.dropout(self.pool(tokens, text))))


class TokenClassificationHead(nn.Module):
    """Scores for each token: a tag's, or two, that an answer begins here and that it ends here."""

    def __init__(self, width: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, classes)"""
        return cast(Tensor, self.linear(self.dropout(tokens)))


class TiedLinear(nn.Module):
    """A score for each word of the vocabulary, by the same table that made words vectors."""

    def __init__(self, vocabulary: int, bias: bool = True) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    def forward(self, tokens: Tensor, table: Tensor) -> Tensor:
        return F.linear(tokens, table, self.bias)


class MLMTransform(nn.Module):
    """Which word stood there. Only the places that are asked for are worked out."""

    def __init__(self, transform: nn.Module, activation: nn.Module, norm: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.transform, self.activation, self.norm, self.output = transform, activation, norm, output

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor | TokenLosses:
        """(batch, tokens, width) -> (places, vocabulary), or (batch, tokens, vocabulary) without places"""
        return _told(self.output, self.norm(self.activation(self.transform(_asked(tokens, text)))), text, table)


class PlainTransform(nn.Module):
    """The same by the table alone."""

    def __init__(self, output: TiedLinear) -> None:
        super().__init__()
        self.output = output

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor | TokenLosses:
        """(batch, tokens, width) -> (places, vocabulary), or (batch, tokens, vocabulary) without places"""
        return _told(self.output, _asked(tokens, text), text, table)


def _told(output: nn.Module, vectors: Tensor, text: Text, table: Tensor) -> Tensor | TokenLosses:
    """the scores of all words, or how far they are off where the targets are known"""
    if text.targets is None:
        return cast(Tensor, output(vectors, table))
    if type(output) is TiedLinear:
        return linear_cross_entropy(vectors, table, output.bias, text.targets)
    return token_losses(output(vectors, table), text.targets)


def _asked(tokens: Tensor, text: Text) -> Tensor:
    return tokens if text.predict_at is None else tokens.flatten(0, 1)[text.predict_at]


class LMHead(nn.Module):
    """The masked words, or of a causal model the next ones."""

    def __init__(self, words: nn.Module) -> None:
        super().__init__()
        self.words = words

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor | TokenLosses:
        """(batch, tokens, width) -> (places, vocabulary), or how far it is off if the text has targets"""
        return cast(Tensor | TokenLosses, self.words(tokens, text, table))


class PretrainingHead(nn.Module):
    """BERT's two tasks: the masked words, and whether the second sentence follows the first (0) or not (1).

    ALBERT asks instead whether the two stand in their order (0) or not (1).
    """

    def __init__(self, words: nn.Module, pool: nn.Module, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.words, self.pool, self.dropout = words, pool, nn.Dropout(dropout)
        self.linear = nn.Linear(width, 2)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> tuple[Tensor | TokenLosses, Tensor]:
        """(places, vocabulary), or how far it is off, and (texts, 2)"""
        return self.words(tokens, text, table), self.linear(self.dropout(self.pool(tokens, text)))
