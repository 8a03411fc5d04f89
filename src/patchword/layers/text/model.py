"""Text models: an embedding, an encoder, a head."""

from typing import cast

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.scope import Scope
from patchword.core.text import Text
from patchword.layers.attention.cache import Cache
from patchword.layers.attention.core import Pattern
from patchword.layers.attention.partition import Causal
from patchword.layers.dropout import Dropout
from patchword.layers.embedding.text_position import LEARNED, TextPosition
from patchword.layers.encoder import Encoder
from patchword.layers.model import Model


class TextEmbedding(nn.Module):
    """norm(word + position + segment) (Devlin et al., 2018, figure 2); families change the parts.

    max_length: the rows of a position table; `limit` is the longest text that the model reads, None is any.
    words: the width of the word embeddings, if not `width`.
    segments, languages: the number of segment and language ids; 0 means no such table.
    first: the row of the position table for the first token.
    position: the position encoding; a learned table by default.
    gather: (words, text) -> vectors, combines a token with its neighbours.
    widen: a map from the width of the tables to that of the encoder, after the norm.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        max_length: int,
        norm: nn.Module,
        *,
        words: int | None = None,
        segments: int = 0,
        languages: int = 0,
        first: int = 0,
        position: TextPosition = LEARNED,
        dropout: float = 0.0,
        gather: nn.Module | None = None,
        widen: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, words or width)
        self.gather = gather
        self.positions = position.on_tokens(width, first + max_length)
        self.limit = max_length if isinstance(self.positions, nn.Embedding) else None
        self.segments = nn.Embedding(segments, width) if segments else None
        self.languages = nn.Embedding(languages, width) if languages else None
        self.first = first
        self.norm, self.dropout, self.widen = norm, Dropout(dropout), widen or nn.Identity()

    def forward(self, text: Text) -> Tensor:
        """(batch, tokens) -> (batch, tokens, width)"""
        words = self.words(text.ids)
        embedded = words if self.gather is None else self.gather(words, text)
        embedded = embedded + self.positions(self.token_positions(text) + self.first).to(embedded.dtype)
        if self.segments is not None:
            same = text.segments is None or self.segments.num_embeddings == 1
            embedded = embedded + self.segments(torch.zeros_like(text.ids[:1, :1]) if same else text.segments)
        if self.languages is not None and text.languages is not None:
            embedded = embedded + self.languages(text.languages)
        return cast(Tensor, self.widen(self.dropout(self.norm(embedded))))

    def token_positions(self, text: Text) -> Tensor:
        """Return the position of each token in its text, (tokens) or (batch, tokens)."""
        if text.positions is not None:
            return text.positions
        longest = text.ids.shape[1] if text.packed is None else text.packed.max_seqlen
        if self.limit is not None and longest > self.limit:
            raise UserError(
                "a text is longer than the model can read",
                expected=f"{self.limit} tokens at most",
                got=f"{longest}",
                hint="cut it, or read it in windows",
            )
        return torch.arange(longest, device=text.device) if text.packed is None else text.packed.position_id


class TextModel(Model):
    """An embedding, an encoder and a head; the head may use the word embeddings as its output matrix.

    norm: after the last block, if the blocks are pre-norm.
    """

    def __init__(
        self, embedding: TextEmbedding, encoder: Encoder, head: nn.Module, norm: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.embedding, self.encoder, self.norm, self.head = embedding, encoder, norm or nn.Identity(), head

    @property
    def causal(self) -> bool:
        """True if a token attends only to itself and the tokens before it."""
        return any(isinstance(part, Pattern) and isinstance(part.partition, Causal) for part in self.modules())

    def forward(self, text: Text | Tensor, cache: Cache | None = None) -> Tensor:
        """Return the output of the head. A tensor of ids (batch, tokens) is a batch without padding.

        cache: keys and values of the earlier tokens; the mask of the text covers them as well.
        """
        text = text if isinstance(text, Text) else Text(text)
        return cast(Tensor, self.head(self.encode(text, cache), text, self.embedding.words.weight))

    def encode(self, text: Text, cache: Cache | None = None) -> Tensor:
        """Return the output of the encoder: (batch, tokens, width), or (1, tokens of all texts, width) if packed."""
        return cast(Tensor, self.norm(self.encoder(self.embedding(text), _scope(text, cache))))

    def states(self, text: Text) -> list[Tensor]:
        """Return the input of the first block and the output of every block; the last one is normalized."""
        found = self.encoder.states(self.embedding(text), _scope(text))
        return [*found[:-1], self.norm(found[-1])]


def _scope(text: Text, cache: Cache | None = None) -> Scope:
    mask = None if text.mask is None else text.mask[:, None, None]
    return Scope(mask=mask, packed=text.packed, cache=cache)
