"""Models that read one text and write another: an encoder, a decoder that reads its output, a score for each word."""

from abc import abstractmethod
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.scope import Scope
from patchword.core.text import Pair, Text
from patchword.layers.attention.cache import Cache
from patchword.layers.dropout import Dropout
from patchword.layers.encoder import Encoder
from patchword.layers.model import Model


class Memory(NamedTuple):
    """What an encoder understood.

    tokens: (batch, tokens, width). mask: (batch, tokens), True where there is a token; None is everywhere.
    state: what a recurrent decoder begins with, (batch, layers, width) twice.
    """

    tokens: Tensor
    mask: Tensor | None
    state: tuple[Tensor, Tensor] | None = None

    def take(self, index: Tensor) -> "Memory":
        """that of the texts at `index`"""
        state = self.state and (self.state[0][index], self.state[1][index])
        return Memory(self.tokens[index], None if self.mask is None else self.mask[index], state)

    def scope(self, cache: Cache | None) -> Scope:
        """for a decoder whose tokens may read all of it"""
        mask = None if self.mask is None else self.mask[:, None, None]
        return Scope(memory=self.tokens, memory_mask=mask, cache=cache)


class TokenEmbedding(nn.Module):
    """Words to vectors: scale * word + position, with dropout.

    longest: tokens of a text. positions: from the place of a token to what is added.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        longest: int,
        *,
        positions: nn.Module | None = None,
        scale: float = 1.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.words, self.positions, self.dropout = nn.Embedding(vocabulary, width), positions, Dropout(dropout)
        self.longest, self.scale = longest, scale

    def forward(self, text: Text, read: int = 0) -> Tensor:
        """(batch, tokens) -> (batch, tokens, width). read: tokens that came before"""
        assert text.packed is None, "texts of a pair are padded, not in a row"
        count = text.ids.shape[1]
        if read + count > self.longest:
            raise UserError(
                "a text is longer than the model can read",
                expected=f"{self.longest} tokens at most",
                got=f"{read + count}",
                hint="cut it, or make the model with a larger `max_length`",
            )
        embedded = self.words(text.ids) * self.scale
        if self.positions is not None:
            places = torch.arange(read, read + count, device=text.device) if text.positions is None else text.positions
            embedded = embedded + self.positions(places).to(embedded.dtype)
        return cast(Tensor, self.dropout(embedded))


class Translator(Model):
    """What every such model is. Words are scored by the table that made the target's words vectors.

    target: its entrance for what is written; None if both sides have one vocabulary, and so one table.
    """

    def __init__(self, source: TokenEmbedding, target: TokenEmbedding | None, head: nn.Module) -> None:
        super().__init__()
        self.source, self.target, self.head = source, target, head

    @property
    def writing(self) -> TokenEmbedding:
        """the entrance of what is written"""
        return self.source if self.target is None else self.target

    def forward(self, pair: Pair) -> Tensor:
        """(places, vocabulary): scores for the word behind each token asked for, (batch, tokens, vocabulary) of all"""
        return self.scores(self.decode(pair.target, self.encode(pair.source)), pair.target)

    def scores(self, tokens: Tensor, target: Text) -> Tensor:
        """of the words behind the decoder's tokens"""
        return cast(Tensor, self.head(tokens, target, self.writing.words.weight))

    @abstractmethod
    def encode(self, source: Text) -> Memory:
        """reads the source, once for all that is written"""

    @abstractmethod
    def decode(self, target: Text, memory: Memory, cache: Cache | None = None) -> Tensor:
        """(batch, tokens) -> (batch, tokens, width). cache: what was written before; the target goes on from there

        A token reads only those before it, so that padding, which is on the right, needs no mask.
        """


class EncoderDecoder(Translator):
    """The Transformer: blocks that read the source, and blocks that read both what is written and the memory.

    norms: behind the last block of encoder and decoder, where the blocks have theirs in front.
    """

    def __init__(
        self,
        source: TokenEmbedding,
        target: TokenEmbedding | None,
        encoder: Encoder,
        decoder: Encoder,
        head: nn.Module,
        norms: tuple[nn.Module, nn.Module] | None = None,
    ) -> None:
        super().__init__(source, target, head)
        self.encoder, self.decoder = encoder, decoder
        self.encoder_norm, self.decoder_norm = norms or (nn.Identity(), nn.Identity())

    def encode(self, source: Text) -> Memory:
        scope = Scope(mask=None if source.mask is None else source.mask[:, None, None])
        return Memory(self.encoder_norm(self.encoder(self.source(source), scope)), source.mask)

    def decode(self, target: Text, memory: Memory, cache: Cache | None = None) -> Tensor:
        tokens = self.writing(target, 0 if cache is None else cache.length)
        return cast(Tensor, self.decoder_norm(self.decoder(tokens, memory.scope(cache))))
