# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""A step of a recurrent layer's cells, and its gradient, each as one kernel of a GPU. The twin is in lstm_steps.

Only to be imported where Triton is installed; it comes with torch where that is built for NVIDIA's GPUs.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchword.kernels.lstm.steps import Read

_BLOCK = 512
_CHANGING = ["number", "words", "batch"]  # one kernel serves all of them


@triton.jit
def _tanh(x):
    """Without cancellation where x is small: (1 - e) / (1 + e) with e = exp(-2 |x|), or the first terms of its row."""
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
def _place(words, number, batch, block: tl.constexpr):
    """of each element: its row among all words and among words + 1, its row in a step, its cell"""
    place = tl.program_id(1) * block + tl.arange(0, block)
    row = tl.program_id(0)
    way, text = (row // batch).to(tl.int64), row % batch
    return (way * words + number) * batch + text, (way * (words + 1) + number) * batch + text, row.to(tl.int64), place


@triton.jit(do_not_specialize=_CHANGING)
def _forwards(sums, gates, cells, squashed, kept, held, bound, number, words, batch, count, block: tl.constexpr):
    row, longer, here, place = _place(words, number, batch, block)
    there, four = place < count, row * 4 * count + place
    i = _sigmoid(tl.load(sums + four, there).to(tl.float32))
    f = _sigmoid(tl.load(sums + four + count, there).to(tl.float32))
    o = _sigmoid(tl.load(sums + four + 2 * count, there).to(tl.float32))
    g = _tanh(tl.load(sums + four + 3 * count, there).to(tl.float32))
    total = i * g + f * tl.load(cells + longer * count + place, there)
    cell = tl.minimum(tl.maximum(total, -bound), bound)
    t = _tanh(cell)
    tl.store(gates + four, i, there)
    tl.store(gates + four + count, f, there)
    tl.store(gates + four + 2 * count, o, there)
    tl.store(gates + four + 3 * count, g, there)
    tl.store(cells + (longer + batch) * count + place, cell, there)
    tl.store(squashed + row * count + place, t, there)
    tl.store(kept + row * count + place, (tl.abs(total) <= bound).to(tl.int8), there)
    tl.store(held + here * count + place, o * t, there)


@triton.jit(do_not_specialize=_CHANGING)
def _backwards(gates, cells, squashed, kept, held, carried, sums, number, words, batch, count, block: tl.constexpr):
    row, longer, here, place = _place(words, number, batch, block)
    there, four = place < count, row * 4 * count + place
    i, f = tl.load(gates + four, there), tl.load(gates + four + count, there)
    o, g = tl.load(gates + four + 2 * count, there), tl.load(gates + four + 3 * count, there)
    t, before = tl.load(squashed + row * count + place, there), tl.load(cells + longer * count + place, there)
    d = tl.load(held + here * count + place, there).to(tl.float32)
    passes = tl.load(kept + row * count + place, there) != 0
    e = d * o * (1.0 - t * t) + tl.load(carried + here * count + place, there)
    e = tl.where(passes, e, 0.0)
    tl.store(sums + four, e * g * i * (1.0 - i), there)
    tl.store(sums + four + count, e * before * f * (1.0 - f), there)
    tl.store(sums + four + 2 * count, d * t * o * (1.0 - o), there)
    tl.store(sums + four + 3 * count, e * i * (1.0 - g * g), there)
    tl.store(carried + here * count + place, e * f, there)


class TritonSteps:
    """sums: (directions, words, batch, 4 * cells), before sigmoid and tanh."""

    def __init__(self, sums: Tensor, bound: float) -> None:
        directions, words, batch, channels = sums.shape
        self._shape, self._bound, self._sums = (words, batch, channels // 4), bound, sums
        self._gates = sums if sums.dtype == torch.float32 else torch.empty_like(sums, dtype=torch.float32)
        self._squashed = self._gates.new_empty(directions, words, batch, channels // 4)
        self._kept = torch.empty_like(self._squashed, dtype=torch.int8)
        self._cells = self._gates.new_empty(directions, words + 1, batch, channels // 4)
        self._cells[:, 0] = 0
        self._run: Any = _forwards[_grid(self._squashed)]

    def take(self, number: int, held: Tensor) -> None:
        written = self._gates, self._cells, self._squashed, self._kept, held
        self._run(self._sums, *written, self._bound, number, *self._shape, block=_BLOCK)

    def read(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self._gates, self._cells, self._squashed, self._kept


class TritonStepsBack:
    """The formulas of TorchStepsBack; what the next word hands back, f' * e', is kept from step to step."""

    def __init__(self, read: Read, narrow: torch.dtype) -> None:
        self.sums, self._carried = torch.empty_like(read.gates, dtype=narrow), torch.zeros_like(read.cells[:, 0])
        self._read, self._shape = read[:4], read.squashed.shape[1:]
        self._run: Any = _backwards[_grid(read.squashed)]

    def take(self, number: int, held: Tensor) -> None:
        self._run(*self._read, held, self._carried, self.sums, number, *self._shape, block=_BLOCK)


def _grid(cells: Tensor) -> tuple[int, int]:
    """a row of a step, and a block of its cells"""
    directions, _, batch, count = cells.shape
    return directions * batch, triton.cdiv(count, _BLOCK)
