"""The elementwise part of an LSTM's time step, forwards and backwards, in operations of torch.

It is the reference of the Triton kernels (triton.py), and runs where they cannot. Whatever does not depend on another
step is computed for all steps at once.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

_sigmoid_slope = torch.ops.aten.sigmoid_backward  # (gradient, s) -> gradient * s * (1 - s)
_tanh_slope = torch.ops.aten.tanh_backward  # (gradient, t) -> gradient * (1 - t * t)


class SavedSteps(NamedTuple):
    """What the backward pass needs. All are (directions, words, batch, channels).

    gates: i, f, o, g after sigmoid and tanh. cells, states: one more than words, the first is zero. squashed: tanh of
    the cells. cell_kept, output_kept: True where the value was not clipped, so that a gradient passes.
    """

    gates: Tensor
    cells: Tensor
    squashed: Tensor
    cell_kept: Tensor
    states: Tensor
    output_kept: Tensor

    def held(self, dtype: torch.dtype) -> Tensor:
        """o * tanh(c)"""
        return torch.mul(self.gates.chunk(4, -1)[2], self.squashed, out=torch.empty_like(self.squashed, dtype=dtype))


class StepsForward(Protocol):
    def run(self, number: int, held: Tensor) -> None:
        """Computes the cells of step `number` from its pre-activations, and writes o * tanh(c) into `held`."""
        ...

    def saved(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns gates, cells, squashed and cell_kept of all steps."""
        ...


class StepsBackward(Protocol):
    @property
    def pre_activations(self) -> Tensor:
        """The gradients of the gates' pre-activations, (directions, words, batch, 4 * cells)."""
        ...

    def run(self, number: int, held: Tensor) -> None:
        """Computes the gradients of step `number` from that of o * tanh(c), `held`, and from those of the next step."""
        ...


class TorchStepsForward:
    """pre_activations: (directions, words, batch, 4 * cells), before sigmoid and tanh. cell_dtype: dtype of cells"""

    def __init__(self, pre_activations: Tensor, bound: float, whole: torch.dtype) -> None:
        directions, words, batch, channels = pre_activations.shape
        self._bound, self._narrow = bound, pre_activations.dtype != whole
        self._gates = torch.empty_like(pre_activations, dtype=whole) if self._narrow else pre_activations
        self._totals, self._squashed = (self._gates.new_empty(directions, words, batch, channels // 4) for _ in "ab")
        self._cells = self._gates.new_empty(directions, words + 1, batch, channels // 4)
        self._cells[:, 0] = 0
        # Views are created once, not in every step.
        self._pre_activations, self._whole = pre_activations.unbind(1), self._gates.unbind(1)
        self._sigmoids = self._gates[..., : channels // 4 * 3].unbind(1)
        self._parts = [part.unbind(1) for part in self._gates.chunk(4, -1)]
        self._each = [part.unbind(1) for part in (self._totals, self._squashed, self._cells)]

    def run(self, number: int, held: Tensor) -> None:
        inward, forget, outward, new = (part[number] for part in self._parts)
        total, squashed, cell = (part[number] for part in self._each)
        after = self._each[2][number + 1]
        if self._narrow:
            self._whole[number].copy_(self._pre_activations[number])
        self._sigmoids[number].sigmoid_()
        new.tanh_()
        torch.mul(inward, new, out=total)
        total.addcmul_(forget, cell)
        torch.clamp(total, -self._bound, self._bound, out=after)
        torch.tanh(after, out=squashed)
        torch.mul(outward, squashed, out=held)

    def saved(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self._gates, self._cells, self._squashed, self._totals.abs() <= self._bound


class TorchStepsBackward:
    """With d the gradient of o * tanh(c), and e that of f * c + i * g before it is clipped:

    e = kept * (d * o * (1 - tanh(c)^2) + f' * e'), where a prime marks the next step. The gradients of the
    pre-activations of i, f and g are e, and that of o is d, each times a derivative that does not depend on them.

    dtype: of the gradients of the pre-activations
    """

    def __init__(self, saved: SavedSteps, dtype: torch.dtype) -> None:
        inward, forget, outward, new = saved.gates.chunk(4, -1)
        slopes = torch.empty_like(saved.gates)
        to_inward, to_forget, _, to_new = slopes.chunk(4, -1)
        _sigmoid_slope(new, inward, grad_input=to_inward)
        _sigmoid_slope(saved.cells[:, :-1], forget, grad_input=to_forget)
        _tanh_slope(inward, new, grad_input=to_new)
        to_outward = _sigmoid_slope(saved.squashed, outward)
        to_cell = _tanh_slope(outward, saved.squashed).mul_(saved.cell_kept)
        to_before = forget[:, 1:] * saved.cell_kept[:, :-1]
        self.pre_activations = slopes if dtype == slopes.dtype else torch.empty_like(slopes, dtype=dtype)
        self._slopes, self._written = (part.unflatten(-1, (4, -1)).unbind(1) for part in (slopes, self.pre_activations))
        self._out_written = self.pre_activations.chunk(4, -1)[2].unbind(1)
        self._to_outward, self._to_cell, self._to_before = (part.unbind(1) for part in (to_outward, to_cell, to_before))
        self._spread = to_cell.unsqueeze(-2).unbind(1)

    def run(self, number: int, held: Tensor) -> None:
        cell = self._to_cell[number].mul_(held)  # the slope becomes the gradient
        if number < len(self._to_before):
            cell.addcmul_(self._to_cell[number + 1], self._to_before[number])
        torch.mul(self._spread[number], self._slopes[number], out=self._written[number])
        torch.mul(held, self._to_outward[number], out=self._out_written[number])
