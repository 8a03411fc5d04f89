"""Recurrent layers whose loop over the words is one operation of the graph, torch's scan, for any number of words.

torch.export would unroll the loop for the length of its example. In ONNX, a scan is the operator Scan.
"""

import copy
from collections.abc import Callable
from itertools import chain
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.layers.recurrent.clipped_lstm import ClippedLstm

Tensors = tuple[Tensor, ...]
State = tuple[Tensor, Tensor]  # hidden state and cell
_WEIGHTS = "weight_ih", "weight_hh", "bias_ih", "bias_hh"


class ScannedLstm(nn.Module):
    """Computes an nn.LSTM of one direction."""

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        if lstm.bidirectional or lstm.proj_size or not (lstm.batch_first and lstm.bias):
            expected = "one direction, batch_first, biases and no projection"
            raise UserError("this LSTM cannot be exported", expected=expected, got=lstm)
        self.lstm = lstm

    def forward(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """(batch, words, inputs) -> (batch, words, width), and hidden state and cell, each (layers, batch, width)"""
        lstm, words = self.lstm, tokens.transpose(0, 1)
        zeros = tokens.new_zeros(lstm.num_layers, tokens.shape[0], lstm.hidden_size)
        hidden, cell = (zeros, zeros) if state is None else state
        last = []
        for layer in range(lstm.num_layers):
            inward, recurrent, *biases = (getattr(lstm, f"{name}_l{layer}") for name in _WEIGHTS)
            entering = F.linear(words, inward, biases[0] + biases[1])
            *ends, words = _scan(_lstm_step, [hidden[layer], cell[layer]], entering, [recurrent.T])
            last.append(ends)
        hidden, cell = (torch.stack(ends) for ends in zip(*last, strict=True))
        return words.transpose(0, 1), (hidden, cell)


def _lstm_step(hidden: Tensor, cell: Tensor, entering: Tensor, recurrent: Tensor) -> Tensors:
    """Return the next hidden state and cell, and the output. The gates are in PyTorch's order i, f, g, o."""
    inward, forget, candidate, outward = torch.addmm(entering, hidden, recurrent).chunk(4, -1)
    cell = forget.sigmoid() * cell + inward.sigmoid() * candidate.tanh()
    hidden = outward.sigmoid() * cell.tanh()
    return hidden, cell, hidden.clone()


class ScannedClippedLstm(nn.Module):
    """Computes a ClippedLstm."""

    def __init__(self, lstm: ClippedLstm) -> None:
        super().__init__()
        self.lstm = lstm

    def forward(self, tokens: Tensor) -> Tensor:
        """(directions, batch, words, inputs) -> (directions, batch, words, outputs)"""
        lstm, (directions, batch, words, _) = self.lstm, tokens.shape
        entering = torch.baddbmm(lstm.bias, tokens.transpose(1, 2).flatten(1, 2), lstm.inputs)
        entering = entering.unflatten(1, (words, batch)).transpose(0, 1)
        states = [tokens.new_zeros(directions, batch, size) for size in lstm.output.shape[:0:-1]]
        step = _clipped_step(lstm.cell_clip, lstm.output_clip)
        *_, found = _scan(step, states, entering, [lstm.recurrent, lstm.output])
        return found.permute(1, 2, 0, 3)


def _clipped_step(cell_clip: float, output_clip: float) -> Callable[..., Tensors]:
    """Return the step of a ClippedLstm. torch traces functions only, not methods."""

    def step(state: Tensor, cell: Tensor, entering: Tensor, recurrent: Tensor, output: Tensor) -> Tensors:
        """Return the next state and cell, and the output. The gates are in the order i, f, o, g."""
        cells = cell.shape[-1]
        gates = torch.baddbmm(entering, state, recurrent)
        inward, forget, outward = gates[..., : 3 * cells].sigmoid().chunk(3, -1)
        cell = (forget * cell + inward * gates[..., 3 * cells :].tanh()).clamp(-cell_clip, cell_clip)
        state = torch.bmm(outward * cell.tanh(), output).clamp(-output_clip, output_clip)
        return state, cell, state.clone()

    return step


def _scan(step: Callable[..., Tensors], states: list[Tensor], words: Tensor, weights: list[Tensor]) -> list[Tensor]:
    """Call step(*states, word, *weights) for each word; return the last states, and all outputs, words first.

    A scan allows no memory twice: neither states that are views of one tensor nor an output that is a state.
    """
    states = [state.clone() for state in states]
    return cast(list[Tensor], list(torch.ops.higher_order.scan(step, states, [words], weights)))


_SCANNED: dict[type[nn.Module], Callable[..., nn.Module]] = {nn.LSTM: ScannedLstm, ClippedLstm: ScannedClippedLstm}


def with_scans(model: nn.Module) -> nn.Module:
    """Return a copy with scans for its recurrent layers, which shares the parameters; without any, the model itself."""
    if not any(type(part) in _SCANNED for part in model.modules()):
        return model
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    copied = copy.deepcopy(model, shared)
    for module in list(copied.modules()):
        for name, child in module.named_children():
            if type(child) in _SCANNED:
                setattr(module, name, _SCANNED[type(child)](child))
    return copied
