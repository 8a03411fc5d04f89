"""LSTM with a projection and with clipping, which nn.LSTM does not have; both directions run in parallel."""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from patchword.kernels.lstm.operation import Bounds, Weights, clipped_lstm
from patchword.layers.recurrent.reordering import reordered


class ClippedLstm(nn.Module):
    """i, f, o = sigmoid(W x + U h + b), g = tanh(...); c = clip(f * c + i * g); h = clip(P (o * tanh(c))).

    (Sak et al., 2014, with the clipping of Jozefowicz et al., 2016.) The directions are independent, each with its own
    weights, and run in one batch. The gates are in the order i, f, o, g, so that one sigmoid computes three of them.
    cell_clip, output_clip: values are clipped to [-clip, clip]. The initial state is zero.
    """

    def __init__(
        self, inputs: int, cell: int, outputs: int, *, cell_clip: float, output_clip: float, directions: int = 2
    ) -> None:
        super().__init__()
        self.cell_clip, self.output_clip = cell_clip, output_clip
        self.inputs = nn.Parameter(torch.empty(directions, inputs, 4 * cell))
        self.recurrent = nn.Parameter(torch.empty(directions, outputs, 4 * cell))
        self.bias = nn.Parameter(torch.empty(directions, 1, 4 * cell))
        self.output = nn.Parameter(torch.empty(directions, cell, outputs))
        self.begin()

    def forward(self, tokens: Tensor) -> Tensor:
        """(directions, batch, words, inputs) -> (directions, batch, words, outputs)"""
        narrow = _precision(tokens.device, self.bias.dtype)
        weights = (part.to(narrow) for part in (self.inputs, self.recurrent, self.bias, self.output))
        bounds = Bounds(self.cell_clip, self.output_clip)
        states = clipped_lstm(tokens.transpose(1, 2).to(narrow), Weights(*weights), bounds, self.bias.dtype)
        return states.transpose(1, 2)

    def begin(self) -> None:
        """Initialize: Xavier for the joint matrix of inputs and state and for the projection; forget bias 1."""
        cells = self.output.shape[1]
        bound = (6 / (self.inputs.shape[1] + self.recurrent.shape[1] + 4 * cells)) ** 0.5
        nn.init.uniform_(self.inputs, -bound, bound)
        nn.init.uniform_(self.recurrent, -bound, bound)
        nn.init.zeros_(self.bias)
        with torch.no_grad():
            self.bias[..., cells : 2 * cells] = 1
        bound = (6 / (cells + self.output.shape[2])) ** 0.5
        nn.init.uniform_(self.output, -bound, bound)


def _precision(device: torch.device, weights: torch.dtype) -> torch.dtype:
    """Return the dtype of the matrix products: that of the weights, or autocast's for float32 weights."""
    if device.type == "meta" or weights != torch.float32 or not torch.is_autocast_enabled(device.type):
        return weights
    return torch.get_autocast_dtype(device.type)


class BidirectionalEncoder(nn.Module):
    """Layers with two independent directions, forward and backward (Peters et al., 2018, section 3.1).

    From the second layer on, the layers are residual. dropout: on the input of each layer.
    """

    def __init__(self, layers: Iterable[ClippedLstm], dropout: float = 0.0) -> None:
        super().__init__()
        self.layers, self.dropout = nn.ModuleList(layers), nn.Dropout(dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        """(batch, words, width), padded on the right, and (batch,) -> the tokens twice, then the output of each layer
        in both directions: each (batch, words, 2 * width)

        Each text is reversed within its length, so that padding comes last in both directions and is never read.
        """
        place = torch.arange(tokens.shape[1], device=tokens.device)
        turned = torch.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)
        both = torch.stack([tokens, reordered(tokens, turned)])
        found = [torch.cat([tokens, tokens], -1)]
        for number, layer in enumerate(self.layers):
            entering = self.dropout(both)
            both = cast(Tensor, layer(entering))
            both = both + entering if number else both
            found.append(torch.cat([both[0], reordered(both[1], turned)], -1))
        return found
