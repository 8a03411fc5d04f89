"""Heads of text models. Each reads (tokens, text, table): the last tokens, the batch, and the table of words."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.text import Text
from patchword.layers.activation import Gelu


class Pooler(nn.Module):
    """tanh of a linear map of the first token, [CLS]"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return cast(Tensor, self.linear(text.first(tokens))).tanh()


class FirstToken(nn.Module):
    """[CLS] as it is."""

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return text.first(tokens)


class MeanPool(nn.Module):
    """The mean of all tokens of a text, as sentence vectors are made."""

    def forward(self, tokens: Tensor, text: Text) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return text.mean(tokens)


class PooledHead(nn.Module):
    """One vector a text, as its pool makes it."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return cast(Tensor, self.pool(tokens, text))


class VectorHead(nn.Module):
    """One vector of length 1 a text, so that products are cosines."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, width)"""
        return F.normalize(self.pool(tokens, text), dim=-1)


class SentenceHead(nn.Module):
    """Scores for a whole text or a pair of them: classes, labels that may hold together, or one number."""

    def __init__(self, pool: nn.Module, width: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.pool, self.dropout = pool, nn.Dropout(dropout)
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (texts, classes)"""
        return cast(Tensor, self.linear(self.dropout(self.pool(tokens, text))))


class TokenHead(nn.Module):
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

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens: Tensor, table: Tensor) -> Tensor:
        return F.linear(tokens, table, self.bias)


class Words(nn.Module):
    """Which word stood there. Only the places that are asked for are worked out."""

    def __init__(self, width: int, vocabulary: int, norm: nn.Module, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.activation = activation or Gelu()
        self.norm = norm
        self.output = TiedLinear(vocabulary)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (places, vocabulary), or (batch, tokens, vocabulary) without places"""
        asked = tokens if text.places is None else tokens.flatten(0, 1)[text.places]
        return cast(Tensor, self.output(self.norm(self.activation(self.transform(asked))), table))


class WordHead(nn.Module):
    """The masked words."""

    def __init__(self, words: Words) -> None:
        super().__init__()
        self.words = words

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """(batch, tokens, width) -> (places, vocabulary)"""
        return cast(Tensor, self.words(tokens, text, table))


class PretrainingHead(nn.Module):
    """BERT's two tasks: the masked words, and whether the second sentence follows the first (0) or not (1)."""

    def __init__(self, words: Words, pool: nn.Module, width: int) -> None:
        super().__init__()
        self.words, self.pool = words, pool
        self.linear = nn.Linear(width, 2)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> tuple[Tensor, Tensor]:
        """(places, vocabulary) and (texts, 2)"""
        return self.words(tokens, text, table), self.linear(self.pool(tokens, text))
