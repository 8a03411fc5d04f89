"""FLOATER (Liu et al., 2020): position vectors p(t) that solve a neural ODE, dp/dt = f(t, p).

The vectors are smooth in t, f is learned, and t has no limit. The ODE is solved with a Runge-Kutta method.
"""

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid

Derivative = Callable[[float, Tensor], Tensor]


def runge_kutta(derivative: Derivative, start: Tensor, points: int, interval: float, steps: int = 1) -> Tensor:
    """(...) -> (points, ...): the solution at 0, interval, 2 interval, ..., with `steps` solver steps per interval.

    The classical fourth-order method: half the step size gives a sixteenth of the error.
    """
    step, state, found = interval / steps, start, [start]
    for number in range((points - 1) * steps):
        time = number * step
        first = derivative(time, state)
        second = derivative(time + step / 2, state + step / 2 * first)
        third = derivative(time + step / 2, state + step / 2 * second)
        fourth = derivative(time + step, state + step * third)
        state = state + step / 6 * (first + 2 * second + 2 * third + fourth)
        if (number + 1) % steps == 0:
            found.append(state)
    return torch.stack(found)


class Flow(nn.Module):
    """An ODE with learned p(0) and f(t, p) = W2 tanh(W1 [p, t] + b1) + b2.

    interval: the time between two tokens. steps: the number of solver steps per interval.
    Deviations from the authors' code: tanh instead of ReLU, so that f is smooth and the solver has its full order; the
    time is an input of the first map only; an interval of 0.1 in one step, not of 0.01 in five.
    """

    def __init__(self, width: int, hidden: int | None = None, *, interval: float = 0.1, steps: int = 1) -> None:
        super().__init__()
        hidden = hidden or width
        if interval <= 0 or steps < 1:
            expected = "an interval above 0, and a step or more in it"
            raise UserError("FLOATER", expected=expected, got=f"{interval} and {steps}")
        self.interval, self.steps = interval, steps
        self.start = nn.Parameter(torch.randn(width) * _SIZE)
        self.up = nn.Parameter(torch.randn(hidden, width) * width**-0.5)
        self.up_time = nn.Parameter(torch.randn(hidden))
        self.up_bias = nn.Parameter(torch.zeros(hidden))
        self.down = nn.Parameter(torch.randn(width, hidden) * hidden**-0.5 * _SIZE)
        self.down_bias = nn.Parameter(torch.zeros(width))

    def extra_repr(self) -> str:
        return f"width={len(self.start)}, interval={self.interval:g}, steps={self.steps}"

    def speed(self, time: float, state: Tensor) -> Tensor:
        """Return the derivative f(time, state)."""
        inner = F.linear(state, self.up, self.up_bias + time * self.up_time)
        return F.linear(inner.tanh(), self.down, self.down_bias)

    def forward(self, points: int, steps: int | None = None) -> Tensor:
        """Return (points, width): the vectors of the first positions."""
        return runge_kutta(self.speed, self.start, points, self.interval, steps or self.steps)

    @torch.no_grad()
    def error(self, points: int, finer: int = 8) -> float:
        """Return the largest difference to a solution with `finer` times as many steps, relative to its maximum."""
        coarse, fine = self(points), self(points, finer * self.steps)
        return float((coarse - fine).abs().max() / fine.abs().max())


_SIZE = 0.2  # scale of p(0) and of f; 100 tokens are 10 units of time


class FloaterTextPositions(nn.Module):
    """FLOATER position vectors for the tokens of a text."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.flow = Flow(width)

    def forward(self, places: Tensor) -> Tensor:
        """(...) -> (..., width)"""
        points = places.shape[-1] if places.is_meta else int(places.max()) + 1
        return cast(Tensor, self.flow(points)[places])


class FloaterPositions(nn.Module):
    """FLOATER for image patches: one ODE for the row in half of the channels, one for the column in the others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise UserError("FLOATER on an image", expected="an even width: rows and columns", got=width)
        self.rows, self.columns = Flow(width // 2), Flow(width // 2)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        rows = self.rows(grid.height)[:, None].expand(-1, grid.width, -1)
        columns = self.columns(grid.width)[None].expand(grid.height, -1, -1)
        table = torch.cat([rows, columns], dim=-1).flatten(0, 1)
        return tokens + F.pad(table, (0, 0, grid.prefix, 0)).to(tokens.dtype)
