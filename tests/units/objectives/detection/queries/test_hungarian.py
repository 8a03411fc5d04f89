"""The assignment with the smallest total cost, against scipy's."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from patchword.core.errors import UserError
from patchword.objectives.detection.queries.hungarian import minimal_assignment

CASES = {
    "random": lambda r, shape: r.normal(size=shape),
    "ties": lambda r, shape: r.integers(0, 3, size=shape),
    "equal rows": lambda r, shape: np.repeat(r.normal(size=(1, shape[1])), shape[0], axis=0),
    "equal columns": lambda r, shape: np.repeat(r.normal(size=(shape[0], 1)), shape[1], axis=1),
    "zeros": lambda r, shape: np.zeros(shape),
    "large": lambda r, shape: r.normal(size=shape) * 1e12,
    "negative": lambda r, shape: -r.random(size=shape) * 100,
    "one large cost": lambda r, shape: np.where(r.random(size=shape) < 0.5, 1e9, r.random(size=shape)),
}


def assert_optimal(costs):
    columns = minimal_assignment(costs)
    used = columns >= 0
    assert columns.shape == (costs.shape[0],)
    assert used.sum() == min(costs.shape)
    assert len(set(columns[used])) == used.sum()
    total = costs[np.flatnonzero(used), columns[used]].sum()
    expected = costs[linear_sum_assignment(costs)].sum()
    assert total == pytest.approx(expected, rel=1e-12, abs=1e-12 * max(1, np.abs(costs).max(initial=0)))


@pytest.mark.parametrize("case", CASES)
def test_the_total_cost_is_that_of_scipy(case):
    random = np.random.default_rng(0)
    for _ in range(150):  # 1,200 problems in all
        shape = tuple(random.integers(1, 21, size=2))
        assert_optimal(CASES[case](random, shape))


@pytest.mark.parametrize("shape", [(100, 30), (30, 100), (60, 60)])
def test_large_problems(shape):
    assert_optimal(np.random.default_rng(1).normal(size=shape))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_nothing_to_assign(shape):
    assert minimal_assignment(np.zeros(shape)).tolist() == [-1] * shape[0]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf"), 1e200])
def test_other_costs_are_refused(wrong):
    costs = np.zeros((3, 4))
    costs[1, 2] = wrong
    with pytest.raises(UserError, match="costs of an assignment"):
        minimal_assignment(costs)


def test_a_known_assignment():
    assert minimal_assignment(np.array([[4.0, 1, 3], [2, 0, 5], [3, 2, 2]])).tolist() == [1, 0, 2]
