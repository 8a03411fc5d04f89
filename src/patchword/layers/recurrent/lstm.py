"""LSTM translation: a bidirectional encoder and a decoder with attention over the encoder's output."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers.attention.attention import Attention
from patchword.layers.attention.cache import Cache
from patchword.layers.recurrent.reordering import reordered
from patchword.layers.text.encoder_decoder import Memory, TokenEmbedding, Translator

State = tuple[Tensor, Tensor]  # hidden state and cell
Run = Callable[[Tensor, State | None], tuple[Tensor, State]]


class BidirectionalLstm(nn.Module):
    """Layers of two LSTMs, one per direction, each of half the width.

    Padding is on the right. The backward LSTM reads each text reversed within its own length, so that neither direction
    reads padding before the text, and no text depends on the rest of its batch.
    """

    def __init__(self, inputs: int, width: int, depth: int, dropout: float = 0.0) -> None:
        super().__init__()
        if width % 2:
            raise UserError("an LSTM per direction", expected="an even width", got=width)
        widths = [inputs, *[width] * (depth - 1)]
        self.forwards = nn.ModuleList(nn.LSTM(wide, width // 2, batch_first=True) for wide in widths)
        self.backwards = nn.ModuleList(nn.LSTM(wide, width // 2, batch_first=True) for wide in widths)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """(batch, tokens, inputs) -> (batch, tokens, width): the forward direction in the first half of the channels"""
        order = _turned(tokens, mask)
        for number, (forwards, backwards) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            tokens = tokens if number == 0 else self.dropout(tokens)
            ahead, back = run_lstm(forwards, tokens)[0], run_lstm(backwards, reordered(tokens, order))[0]
            tokens = torch.cat([ahead, reordered(back, order)], dim=-1)
        return tokens


def run_lstm(lstm: nn.Module, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
    """Run in the dtype of the weights, without autocast: an LSTM accumulates over all steps, too much for bfloat16."""
    run, weight, device = cast(Run, lstm), next(lstm.parameters()), tokens.device.type
    begun = None if state is None else (state[0].to(weight.dtype), state[1].to(weight.dtype))
    tokens = tokens.to(weight.dtype)
    if device == "meta" or not torch.is_autocast_enabled(device):
        return run(tokens, begun)
    with torch.autocast(device, enabled=False):
        return run(tokens, begun)


def _turned(tokens: Tensor, mask: Tensor | None) -> Tensor:
    """Return (batch, tokens): the index that reverses each text and keeps padding. It is its own inverse."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    if mask is None:
        return place.flip(0).expand(tokens.shape[0], -1)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - place, place)


class Bridge(nn.Module):
    """tanh(linear(both ends of the text)): the initial state of a decoder of `depth` layers.

    The cells are computed in the same way, because the encoder does not keep its own cells before the padding.
    """

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.depth, self.linear = depth, nn.Linear(width, 2 * depth * width)

    def forward(self, tokens: Tensor, text: Text) -> tuple[Tensor, Tensor]:
        """(batch, tokens, width) -> hidden state and cell, each (batch, layers, width)"""
        half = tokens.shape[-1] // 2
        ends = torch.cat([text.last(tokens[..., :half]), text.first(tokens[..., half:])], dim=-1)
        hidden, cell = torch.tanh(self.linear(ends)).unflatten(-1, (2, self.depth, -1)).unbind(1)
        return hidden, cell


class MemoryAttention(nn.Module):
    """tanh(W [context; state]): the decoder's state and its attention over the source (Luong et al., 2015, equation 5).

    W consists of two matrices; the first is the output projection of the attention.
    """

    def __init__(self, width: int, attention: Attention) -> None:
        super().__init__()
        self.attention, self.state = attention, nn.Linear(width, width, bias=False)

    def forward(self, tokens: Tensor, memory: Memory, cache: Cache | None) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        return torch.tanh(self.attention(tokens, memory.scope(cache)) + self.state(tokens))


class RecurrentTranslator(Translator):
    """A bidirectional LSTM encoder and an LSTM decoder. look: the attention over the source; None means no attention.

    There is no input feeding: the attention of a step is not an input of the next one, so the LSTM and any attention
    run over the whole target at once. Additive attention uses the decoder state after the current word as its query,
    where Bahdanau et al. use the state before it.
    """

    def __init__(
        self,
        source: TokenEmbedding,
        target: TokenEmbedding | None,
        encoder: BidirectionalLstm,
        bridge: Bridge,
        decoder: nn.LSTM,
        look: MemoryAttention | None,
        head: nn.Module,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(source, target, head)
        self.encoder, self.bridge, self.decoder, self.look = encoder, bridge, decoder, look
        self.dropout = nn.Dropout(dropout)

    def encode(self, source: Text) -> Memory:
        tokens = self.encoder(self.source(source), source.mask)
        return Memory(self.dropout(tokens), source.mask, self.bridge(tokens, source))

    def decode(self, target: Text, memory: Memory, cache: Cache | None = None) -> Tensor:
        """Decode the target. Without attention, the initial state is all that the decoder knows of the source."""
        known = None if cache is None else cache.known(self.decoder)
        before = known or memory.state
        assert before is not None, "a recurrent decoder needs an initial state"
        read = 0 if cache is None else cache.length
        tokens, (hidden, cell) = run_lstm(
            self.decoder, self.writing(target, read), (_turn(before[0]), _turn(before[1]))
        )
        if cache is not None:
            cache.keep(self.decoder, _turn(hidden), _turn(cell))
            cache.length = read + target.ids.shape[1]
        found = tokens if self.look is None else self.look(self.dropout(tokens), memory, cache)
        return cast(Tensor, self.dropout(found))


def _turn(state: Tensor) -> Tensor:
    """Swap the batch and layer axes: nn.LSTM has the layers first, all other code the batch."""
    return state.transpose(0, 1).contiguous()
