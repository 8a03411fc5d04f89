"""The clipped LSTM as a loop over time steps, in operations of torch.

It runs where no gradient is needed, under the compiler and torch.func, and for second derivatives.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Weights(NamedTuple):
    """The weights of each direction. Gates are in the order i, f, o, g."""

    inputs: Tensor  # (directions, inputs, 4 * cells)
    recurrent: Tensor  # (directions, outputs, 4 * cells)
    bias: Tensor  # (directions, 1, 4 * cells)
    output: Tensor  # (directions, cells, outputs)


class Bounds(NamedTuple):
    """Cells and outputs are clipped to [-bound, bound]."""

    cell: float
    output: float


def lstm_reference(
    tokens: Tensor,
    inputs: Tensor,
    recurrent: Tensor,
    bias: Tensor,
    output: Tensor,
    bounds: Bounds,
    cell_dtype: torch.dtype,
) -> Tensor:
    """Computes `clipped_lstm`. cell_dtype: dtype of the cells and gates"""
    directions, words, batch, _ = tokens.shape
    cells, width = output.shape[1:]
    # The input products of all time steps are one matrix product; only the recurrent one waits for the step before.
    entering = torch.baddbmm(bias, tokens.flatten(1, 2), inputs).unflatten(1, (words, batch))
    cell = tokens.new_zeros(directions, batch, cells, dtype=cell_dtype)
    state = tokens.new_zeros(directions, batch, width)
    states = []
    for product in entering.unbind(1):
        gates = torch.baddbmm(product, state, recurrent).to(cell_dtype)
        inward, forget, outward = gates[..., : 3 * cells].sigmoid().chunk(3, -1)
        cell = torch.addcmul(inward * gates[..., 3 * cells :].tanh(), forget, cell)
        cell = cell.clamp(-bounds.cell, bounds.cell)
        held = (outward * cell.tanh()).to(output.dtype)
        state = torch.bmm(held, output).clamp(-bounds.output, bounds.output)
        states.append(state)
    return torch.stack(states, 1)
