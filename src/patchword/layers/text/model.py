"""Text models: tokens to vectors, an encoder, a head."""

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
    """word + position + segment, normed (Devlin et al., 2018, figure 2); families change the parts.

    segments, languages: how many there are to tell apart; 0 is no such table.
    first: the row of the table of positions that the first token has.
    position: how position enters; a table by default. `limit` is the longest text it has places for, None is any.
    gather: (words, text) -> vectors, what a token takes from the words around it.
    widen: what is behind the norm, from the width of the tables to that of the encoder.
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
        embedded = embedded + self.positions(self._places(text) + self.first).to(embedded.dtype)
        for table, told in ((self.segments, text.segments), (self.languages, text.languages)):
            if table is not None:
                alike = told is None or table.num_embeddings == 1
                embedded = embedded + table(torch.zeros_like(text.ids[:1, :1]) if alike else told)
        return cast(Tensor, self.widen(self.dropout(self.norm(embedded))))

    def _places(self, text: Text) -> Tensor:
        """where in its text each token stands"""
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
    """An entrance, an encoder, a head; the head may read the table of words again.

    norm: behind the last block, where the blocks have theirs in front.
    """

    def __init__(
        self, entrance: TextEmbedding, encoder: Encoder, head: nn.Module, norm: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.entrance, self.encoder, self.norm, self.head = entrance, encoder, norm or nn.Identity(), head

    @property
    def causal(self) -> bool:
        """whether a token reads only those before it"""
        return any(isinstance(part, Pattern) and isinstance(part.partition, Causal) for part in self.modules())

    def forward(self, text: Text | Tensor, cache: Cache | None = None) -> Tensor:
        """The head's answer. A tensor of ids (batch, tokens) is a batch without padding.

        cache: what was read before; the text goes on from there, and its mask tells of all of it.
        """
        text = text if isinstance(text, Text) else Text(text)
        return cast(Tensor, self.head(self.encode(text, cache), text, self.entrance.words.weight))

    def encode(self, text: Text, cache: Cache | None = None) -> Tensor:
        """the last tokens: (batch, tokens, width), or (1, tokens of all texts, width) in a row"""
        return cast(Tensor, self.norm(self.encoder(self.entrance(text), _scope(text, cache))))

    def states(self, text: Text) -> list[Tensor]:
        """the tokens that enter the first block and those that leave each, the last of them normed"""
        tokens, scope = self.entrance(text), _scope(text)
        found = [tokens]
        for index in self.encoder.order:
            tokens = self.encoder.blocks[index](tokens, scope)
            found.append(tokens)
        return [*found[:-1], self.norm(found[-1])]


def _scope(text: Text, cache: Cache | None = None) -> Scope:
    mask = None if text.mask is None else text.mask[:, None, None]
    return Scope(mask=mask, packed=text.packed, cache=cache)
