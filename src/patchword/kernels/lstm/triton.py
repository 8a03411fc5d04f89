# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Triton kernels for the elementwise part of an LSTM's time step and for its gradient; steps.py computes the same.

Import it only where Triton is installed. CUDA builds of torch include Triton.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchword.kernels.lstm.steps import SavedSteps
from patchword.kernels.lstm.tuning import BLOCK

_NOT_SPECIALIZED = ["number", "words", "batch"]  # one compiled kernel serves all values


@triton.jit
def _tanh(x):
    """(1 - e) / (1 + e) with e = exp(-2 |x|); the first terms of the Taylor series where x is small, because the
    formula cancels there."""
    size = tl.abs(x)
    e = tl.exp(-2.0 * size)
    far = (1.0 - e) / (1.0 + e)
    square = x * x
    near = size * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0 - square * (17.0 / 315.0))))
    found = tl.where(size < 0.1, near, far)
    return tl.where(x < 0.0, -found, found)


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _indices(words, number, batch, block: tl.constexpr):
    """Returns a program's row in tensors of `words` steps, in tensors of `words` + 1 steps, in a single step, and its
    cells."""
    cell = tl.program_id(1) * block + tl.arange(0, block)
    row = tl.program_id(0)
    direction, text = (row // batch).to(tl.int64), row % batch
    in_words = (direction * words + number) * batch + text
    in_cells = (direction * (words + 1) + number) * batch + text
    return in_words, in_cells, row.to(tl.int64), cell


@triton.jit(do_not_specialize=_NOT_SPECIALIZED)
def _forward_kernel(
    pre_activations, gates, cells, squashed, kept, held, bound, number, words, batch, count, block: tl.constexpr
):
    row, cell_row, step_row, column = _indices(words, number, batch, block)
    valid, gate = column < count, row * 4 * count + column
    i = _sigmoid(tl.load(pre_activations + gate, valid).to(tl.float32))
    f = _sigmoid(tl.load(pre_activations + gate + count, valid).to(tl.float32))
    o = _sigmoid(tl.load(pre_activations + gate + 2 * count, valid).to(tl.float32))
    g = _tanh(tl.load(pre_activations + gate + 3 * count, valid).to(tl.float32))
    total = i * g + f * tl.load(cells + cell_row * count + column, valid)
    cell = tl.minimum(tl.maximum(total, -bound), bound)
    t = _tanh(cell)
    tl.store(gates + gate, i, valid)
    tl.store(gates + gate + count, f, valid)
    tl.store(gates + gate + 2 * count, o, valid)
    tl.store(gates + gate + 3 * count, g, valid)
    tl.store(cells + (cell_row + batch) * count + column, cell, valid)
    tl.store(squashed + row * count + column, t, valid)
    tl.store(kept + row * count + column, (tl.abs(total) <= bound).to(tl.int8), valid)
    tl.store(held + step_row * count + column, o * t, valid)


@triton.jit(do_not_specialize=_NOT_SPECIALIZED)
def _backward_kernel(
    gates, cells, squashed, kept, held, carried, pre_activations, number, words, batch, count, block: tl.constexpr
):
    row, cell_row, step_row, column = _indices(words, number, batch, block)
    valid, gate = column < count, row * 4 * count + column
    i, f = tl.load(gates + gate, valid), tl.load(gates + gate + count, valid)
    o, g = tl.load(gates + gate + 2 * count, valid), tl.load(gates + gate + 3 * count, valid)
    t, before = tl.load(squashed + row * count + column, valid), tl.load(cells + cell_row * count + column, valid)
    d = tl.load(held + step_row * count + column, valid).to(tl.float32)
    passes = tl.load(kept + row * count + column, valid) != 0
    e = d * o * (1.0 - t * t) + tl.load(carried + step_row * count + column, valid)
    e = tl.where(passes, e, 0.0)
    tl.store(pre_activations + gate, e * g * i * (1.0 - i), valid)
    tl.store(pre_activations + gate + count, e * before * f * (1.0 - f), valid)
    tl.store(pre_activations + gate + 2 * count, d * t * o * (1.0 - o), valid)
    tl.store(pre_activations + gate + 3 * count, e * i * (1.0 - g * g), valid)
    tl.store(carried + step_row * count + column, e * f, valid)


class TritonStepsForward:
    """pre_activations: (directions, words, batch, 4 * cells), before sigmoid and tanh"""

    def __init__(self, pre_activations: Tensor, bound: float) -> None:
        directions, words, batch, channels = pre_activations.shape
        self._shape, self._bound, self._pre_activations = (words, batch, channels // 4), bound, pre_activations
        in_place = pre_activations.dtype == torch.float32
        self._gates = pre_activations if in_place else torch.empty_like(pre_activations, dtype=torch.float32)
        self._squashed = self._gates.new_empty(directions, words, batch, channels // 4)
        self._kept = torch.empty_like(self._squashed, dtype=torch.int8)
        self._cells = self._gates.new_empty(directions, words + 1, batch, channels // 4)
        self._cells[:, 0] = 0
        self._run: Any = _forward_kernel[_grid(self._squashed)]

    def run(self, number: int, held: Tensor) -> None:
        written = self._gates, self._cells, self._squashed, self._kept, held
        self._run(self._pre_activations, *written, self._bound, number, *self._shape, block=BLOCK)

    def saved(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self._gates, self._cells, self._squashed, self._kept


class TritonStepsBackward:
    """The formulas of TorchStepsBackward; f' * e' of the next step is carried from step to step."""

    def __init__(self, saved: SavedSteps, dtype: torch.dtype) -> None:
        self.pre_activations = torch.empty_like(saved.gates, dtype=dtype)
        self._carried = torch.zeros_like(saved.cells[:, 0])
        self._saved, self._shape = saved[:4], saved.squashed.shape[1:]
        self._run: Any = _backward_kernel[_grid(saved.squashed)]

    def run(self, number: int, held: Tensor) -> None:
        self._run(*self._saved, held, self._carried, self.pre_activations, number, *self._shape, block=BLOCK)


def _grid(cells: Tensor) -> tuple[int, int]:
    """Returns the launch grid: rows of a step, and blocks of cells."""
    directions, _, batch, count = cells.shape
    return directions * batch, triton.cdiv(count, BLOCK)
