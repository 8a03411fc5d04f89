"""The solver against equations whose solution is known, and the positions that flow."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.layers import FloaterPositions, FloaterTextPositions, Flow
from patchword.layers.embedding.floater import runge_kutta
from support.helpers import difference

START = torch.tensor([1.0, 0.0], dtype=torch.float64)


def turning(time: float, state: Tensor) -> Tensor:
    """dx/dt = -y + cos t, dy/dt = x: it depends on the time and on the state"""
    return torch.stack([-state[1] + math.cos(time), state[0]])


def solution(time: float) -> tuple[float, float]:
    """x = cos t + (t cos t + sin t) / 2, y = sin t + (t sin t) / 2"""
    sine, cosine = math.sin(time), math.cos(time)
    return cosine + (time * cosine + sine) / 2, sine + time * sine / 2


def error(steps: int) -> float:
    exact = torch.tensor([solution(0.5 * point) for point in range(6)], dtype=torch.float64)
    return float((runge_kutta(turning, START, 6, 0.5, steps) - exact).abs().max())


def test_half_a_step_makes_a_sixteenth_of_the_error():
    errors = [error(steps) for steps in (1, 2, 4, 8)]
    for coarse, fine in pairwise(errors):
        assert 14 < coarse / fine < 18
    assert errors[0] < 1e-2


def test_a_solver_of_a_lower_order_would_be_seen():
    """Euler's steps: half a step makes half of the error."""

    def euler(steps: int) -> float:
        state, step = START, 0.5 / steps
        for number in range(5 * steps):
            state = state + step * turning(number * step, state)
        return float((state - torch.tensor(solution(2.5), dtype=torch.float64)).abs().max())

    assert euler(1) / euler(2) < 4
    assert euler(8) > 100 * error(8)


def test_the_error_of_a_flow_shrinks_with_the_fourth_power_of_the_step():
    torch.manual_seed(0)
    flow = Flow(16, interval=1.0).double()
    with torch.no_grad():
        flow.down *= 5
    fine = flow(12, 64)
    errors = [float((flow(12, steps) - fine).detach().abs().max()) for steps in (2, 4, 8)]
    assert 11 < errors[0] / errors[1] < 22
    assert 11 < errors[1] / errors[2] < 22


def test_one_step_a_token_is_enough_at_the_start():
    torch.manual_seed(0)
    flow = Flow(64)
    assert 0 < flow.error(128) < 1e-5
    assert Flow(64, interval=3.0).error(128) > 1e-4


@torch.no_grad()
def test_places_are_read_off_one_solution_whatever_their_order():
    part = FloaterTextPositions(8)
    whole = part.flow(10)
    places = torch.tensor([[3, 0, 9], [9, 1, 1]])
    assert torch.equal(part(places), whole[places])
    assert torch.equal(part.flow(4), whole[:4])


@torch.no_grad()
def test_the_speed_is_what_the_docstring_says_and_knows_the_time():
    flow, state = Flow(4, 6), torch.randn(4)
    given = torch.cat([flow.up, flow.up_time[:, None]], 1) @ torch.cat([state, torch.tensor([0.7])])
    assert difference(flow.speed(0.7, state), flow.down @ (given + flow.up_bias).tanh() + flow.down_bias) < 1e-5
    assert difference(flow.speed(0.2, state), flow.speed(0.7, state)) > 1e-3


@torch.no_grad()
def test_on_an_image_rows_and_columns_flow_each():
    part, grid = FloaterPositions(8), Grid(3, 5, prefix=1)
    added = part(torch.zeros(1, grid.tokens, 8), grid)[0]
    assert not added[0].any()
    assert torch.equal(added[1 + 5 * 2 + 4], torch.cat([part.rows(3)[2], part.columns(5)[4]]))


def test_a_model_leaves_the_flow_as_it_starts():
    flow = patchword.create("bert-tiny", position="floater").embedding.positions.flow
    assert float(flow.up.detach().std()) == pytest.approx(128**-0.5, rel=0.1)


def test_no_step_is_refused():
    with pytest.raises(UserError, match="FLOATER"):
        Flow(8, steps=0)
    with pytest.raises(UserError, match="FLOATER"):
        FloaterPositions(7)
