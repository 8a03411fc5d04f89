"""Sequence-to-sequence models: an encoder, a decoder that attends to its output, logits over the vocabulary."""

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
    """The output of an encoder.

    tokens: (batch, tokens, width). mask: (batch, tokens), True where there is a token; None means everywhere.
    state: the initial hidden state and cell of a recurrent decoder, each (batch, layers, width).
    """

    tokens: Tensor
    mask: Tensor | None
    state: tuple[Tensor, Tensor] | None = None

    def take(self, index: Tensor) -> "Memory":
        """Select the texts at `index`."""
        state = self.state and (self.state[0][index], self.state[1][index])
        return Memory(self.tokens[index], None if self.mask is None else self.mask[index], state)

    def scope(self, cache: Cache | None) -> Scope:
        """Return the scope of a decoder whose tokens attend to all source tokens."""
        mask = None if self.mask is None else self.mask[:, None, None]
        return Scope(memory=self.tokens, memory_mask=mask, cache=cache)


class TokenEmbedding(nn.Module):
    """Token embedding: scale * word + position, with dropout.

    longest: the maximum number of tokens per text. positions: maps the positions of tokens to the vectors added.
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
        """(batch, tokens) -> (batch, tokens, width). read: the number of tokens before these"""
        assert text.packed is None, "texts of a pair are padded, not packed"
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
    """Base of the sequence-to-sequence models. The target's embedding table is also the output matrix.

    target: the embedding of the target; None if source and target share one vocabulary and one table.
    """

    def __init__(self, source: TokenEmbedding, target: TokenEmbedding | None, head: nn.Module) -> None:
        super().__init__()
        self.source, self.target, self.head = source, target, head

    @property
    def writing(self) -> TokenEmbedding:
        """The embedding of the target texts."""
        return self.source if self.target is None else self.target

    def forward(self, pair: Pair) -> Tensor:
        """Return the logits of the next word: (count, vocabulary) at `predict_at`, else (batch, tokens, vocabulary)."""
        return self.scores(self.decode(pair.target, self.encode(pair.source)), pair.target)

    def scores(self, tokens: Tensor, target: Text) -> Tensor:
        """Return the logits of the next word for the output of the decoder."""
        return cast(Tensor, self.head(tokens, target, self.writing.words.weight))

    @abstractmethod
    def encode(self, source: Text) -> Memory:
        """Encode the source, once per text."""

    @abstractmethod
    def decode(self, target: Text, memory: Memory, cache: Cache | None = None) -> Tensor:
        """(batch, tokens) -> (batch, tokens, width). cache: keys and values of the tokens before the target

        A token attends only to those before it, so padding, which is on the right, needs no mask.
        """


class EncoderDecoder(Translator):
    """The Transformer: encoder blocks over the source, decoder blocks over the target and the encoder's output.

    norms: after the last block of encoder and decoder, if the blocks are pre-norm.
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
