"""What a step of a recurrent layer does to each of its cells, and how a gradient passes it back.

The plain way, in operations of torch. Whatever is not of the step alone is computed for all words at once.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest

_sigmoid_slope = torch.ops.aten.sigmoid_backward  # (gradient, s) -> gradient * s * (1 - s)
_tanh_slope = torch.ops.aten.tanh_backward  # (gradient, t) -> gradient * (1 - t * t)


class Read(NamedTuple):
    """What a gradient needs. All are (directions, words, batch, channels).

    gates: i, f, o, g behind sigmoid and tanh. cells, states: one more than words, the first is zero. squashed: tanh of
    the cells. cell_kept, output_kept: True where the bound cut nothing off, so that a gradient passes.
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


class Steps(Protocol):
    def take(self, number: int, held: Tensor) -> None:
        """From the sums of gates of word `number`, which must be there: its cells, and o * tanh(c) into `held`."""
        ...

    def read(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """gates, cells, squashed and cell_kept of all words"""
        ...


class StepsBack(Protocol):
    @property
    def sums(self) -> Tensor:
        """(directions, words, batch, 4 * cells), the gradients of the sums inside the gates"""
        ...

    def take(self, number: int, held: Tensor) -> None:
        """From the gradient of o * tanh(c), and those of word number + 1, the sums of word `number`."""
        ...


class TorchSteps:
    """sums: (directions, words, batch, 4 * cells), before sigmoid and tanh."""

    def __init__(self, sums: Tensor, bound: float, whole: torch.dtype) -> None:
        directions, words, batch, channels = sums.shape
        self._bound, self._narrow = bound, sums.dtype != whole
        self._gates = torch.empty_like(sums, dtype=whole) if self._narrow else sums
        self._totals, self._squashed = (self._gates.new_empty(directions, words, batch, channels // 4) for _ in "ab")
        self._cells = self._gates.new_empty(directions, words + 1, batch, channels // 4)
        self._cells[:, 0] = 0
        # Views are made once.
        self._sums, self._whole = sums.unbind(1), self._gates.unbind(1)
        self._sigmoids = self._gates[..., : channels // 4 * 3].unbind(1)
        self._parts = [part.unbind(1) for part in self._gates.chunk(4, -1)]
        self._each = [part.unbind(1) for part in (self._totals, self._squashed, self._cells)]

    def take(self, number: int, held: Tensor) -> None:
        inward, forget, outward, new = (part[number] for part in self._parts)
        total, squashed, cell = (part[number] for part in self._each)
        after = self._each[2][number + 1]
        if self._narrow:
            self._whole[number].copy_(self._sums[number])
        self._sigmoids[number].sigmoid_()
        new.tanh_()
        torch.mul(inward, new, out=total)
        total.addcmul_(forget, cell)
        torch.clamp(total, -self._bound, self._bound, out=after)
        torch.tanh(after, out=squashed)
        torch.mul(outward, squashed, out=held)

    def read(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self._gates, self._cells, self._squashed, self._totals.abs() <= self._bound


class TorchStepsBack:
    """With d the gradient of o * tanh(c), and e that of f * c + i * g before its bound:

    e = kept * (d * o * (1 - tanh(c)^2) + f' * e'), those of the next word with a prime. The sums inside i, f and g have
    e and the sum inside o has d, each times a slope that does not depend on them.
    """

    def __init__(self, read: Read, narrow: torch.dtype) -> None:
        inward, forget, outward, new = read.gates.chunk(4, -1)
        slopes = torch.empty_like(read.gates)
        to_inward, to_forget, _, to_new = slopes.chunk(4, -1)
        _sigmoid_slope(new, inward, grad_input=to_inward)
        _sigmoid_slope(read.cells[:, :-1], forget, grad_input=to_forget)
        _tanh_slope(inward, new, grad_input=to_new)
        to_outward = _sigmoid_slope(read.squashed, outward)
        to_cell = _tanh_slope(outward, read.squashed).mul_(read.cell_kept)
        to_before = forget[:, 1:] * read.cell_kept[:, :-1]
        self.sums = slopes if narrow == slopes.dtype else torch.empty_like(slopes, dtype=narrow)
        self._slopes, self._written = (part.unflatten(-1, (4, -1)).unbind(1) for part in (slopes, self.sums))
        self._out_written = self.sums.chunk(4, -1)[2].unbind(1)
        self._to_outward, self._to_cell, self._to_before = (part.unbind(1) for part in (to_outward, to_cell, to_before))
        self._spread = to_cell.unsqueeze(-2).unbind(1)

    def take(self, number: int, held: Tensor) -> None:
        cell = self._to_cell[number].mul_(held)  # the slope becomes the gradient
        if number < len(self._to_before):
            cell.addcmul_(self._to_cell[number + 1], self._to_before[number])
        torch.mul(self._spread[number], self._slopes[number], out=self._written[number])
        torch.mul(held, self._to_outward[number], out=self._out_written[number])


def steps_of(sums: Tensor, bound: float, whole: torch.dtype) -> Steps:
    if whole == torch.float32 and fused(sums.device):
        from patchword.kernels.lstm.triton import TritonSteps

        return TritonSteps(sums, bound)
    return TorchSteps(sums, bound, whole)


def steps_back(read: Read, narrow: torch.dtype) -> StepsBack:
    if read.gates.dtype == torch.float32 and fused(read.gates.device):
        from patchword.kernels.lstm.triton import TritonStepsBack

        return TritonStepsBack(read, narrow)
    return TorchStepsBack(read, narrow)


def fused(device: torch.device) -> bool:
    """Whether a step can be one kernel there: on the GPU that kernels are sent to now."""
    return device.type == "cuda" and device.index == torch.cuda.current_device() and SELF_TEST.passes(device.index)


def _both_match_reference(device: torch.device) -> bool:
    from patchword.kernels.lstm.triton import TritonSteps, TritonStepsBack

    return all(_alike(device, narrow, TritonSteps, TritonStepsBack) for narrow in (torch.float32, torch.bfloat16))


SELF_TEST = SelfTest("recurrent steps", _both_match_reference)


def _alike(
    device: torch.device, narrow: torch.dtype, ahead: Callable[..., Steps], back: Callable[..., StepsBack]
) -> bool:
    """Whether two steps forwards and back, with a bound that cuts some cells off, are those of the plain way."""
    sums = torch.linspace(-3, 3, 2 * 2 * 3 * 64, device=device).sin().mul(4).view(2, 2, 3, 64).to(narrow)
    expected = _tried(TorchSteps(sums.clone(), 0.5, torch.float32), TorchStepsBack, sums)
    found = _tried(ahead(sums.clone(), 0.5), back, sums)
    return all(torch.allclose(one, other, 2e-2, 2e-3) for one, other in zip(found, expected, strict=True))


def _tried(steps: Steps, back: Callable[..., StepsBack], sums: Tensor) -> list[Tensor]:
    held = sums.new_empty(2, 3, 16)
    for number in range(2):
        steps.take(number, held)
    gates, cells, squashed, kept = steps.read()
    returned = back(Read(gates, cells, squashed, kept, sums, sums), sums.dtype)
    for number in (1, 0):
        returned.take(number, held)
    return [part.float() for part in (gates, cells, squashed, kept, held, returned.sums)]
