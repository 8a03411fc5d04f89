"""Text models: tokens to vectors, an encoder, a head."""

from typing import cast

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.scope import Scope
from patchword.core.text import Text
from patchword.layers.encoder import Encoder
from patchword.layers.model import Model


class TextEmbedding(nn.Module):
    """word + position + segment, normed (Devlin et al., 2018, figure 2)"""

    def __init__(
        self, vocabulary: int, width: int, positions: int, segments: int, norm: nn.Module, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.segments = nn.Embedding(segments, width)
        self.norm, self.dropout = norm, nn.Dropout(dropout)

    def forward(self, text: Text) -> Tensor:
        """(batch, tokens) -> (batch, tokens, width)"""
        longest = text.ids.shape[1] if text.rows is None else text.rows.longest
        if longest > self.positions.num_embeddings:
            raise UserError(
                "a text is longer than the model can read",
                expected=f"{self.positions.num_embeddings} tokens at most",
                got=f"{longest}",
                hint="cut it, or read it in windows",
            )
        segments = self.segments.weight[0] if text.segments is None else self.segments(text.segments)
        place = torch.arange(longest, device=text.device) if text.rows is None else text.rows.place
        embedded = self.words(text.ids) + self.positions(place) + segments
        return cast(Tensor, self.dropout(self.norm(embedded)))


class TextModel(Model):
    """An entrance, an encoder, a head; the head may read the table of words again."""

    def __init__(self, entrance: TextEmbedding, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.entrance, self.encoder, self.head = entrance, encoder, head

    def forward(self, text: Text | Tensor) -> Tensor:
        """The head's answer. A tensor of ids (batch, tokens) is a batch without padding."""
        text = text if isinstance(text, Text) else Text(text)
        return cast(Tensor, self.head(self.encode(text), text, self.entrance.words.weight))

    def encode(self, text: Text) -> Tensor:
        """the last tokens: (batch, tokens, width), or (1, tokens of all texts, width) in a row"""
        return cast(Tensor, self.encoder(self.entrance(text), _scope(text)))

    def states(self, text: Text) -> list[Tensor]:
        """the tokens that enter the first block and those that leave each"""
        tokens, scope = self.entrance(text), _scope(text)
        found = [tokens]
        for index in self.encoder.order:
            tokens = self.encoder.blocks[index](tokens, scope)
            found.append(tokens)
        return found


def _scope(text: Text) -> Scope:
    mask = None if text.mask is None else text.mask[:, None, None]
    return Scope(mask=mask, rows=text.rows)
