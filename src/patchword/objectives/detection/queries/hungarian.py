"""The linear assignment problem: pairs of rows and columns with the smallest total cost, for many problems at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_LARGEST = 1e150  # sums of such costs are finite


def minimal_assignment(costs: NDArray[Any]) -> Integers:
    """Return the column of each row so that the sum of the costs is the smallest possible: (rows, columns) -> (rows,).

    A column has at most one row. With more rows than columns, the rows without a column get -1.
    """
    costs = np.asarray(costs, dtype=np.float64)
    rows, columns = costs.shape
    if rows <= columns:
        found: Integers = minimal_assignments(costs[None], np.array([rows]))[0]
        return found
    row_of = minimal_assignments(costs.T[None], np.array([columns]))[0]
    column_of: Integers = np.full(rows, -1, dtype=np.int64)
    column_of[row_of] = np.arange(columns)
    return column_of


def minimal_assignments(costs: NDArray[Any], counts: Integers) -> Integers:
    """Solve many problems: (problems, rows, columns) -> the column of each row, (problems, rows).

    counts: (problems,), how many rows of each problem are used, at most one per column; the others get -1.
    The algorithm is exact: shortest augmenting paths (Jonker and Volgenant, 1987). Each step extends the paths of all
    unfinished problems at once, so that the number of steps is that of the hardest problem.
    """
    costs = np.asarray(costs, dtype=np.float64)
    _, rows, columns = costs.shape
    is_used = np.arange(rows) < counts[:, None]
    numbers = costs[is_used]
    if not (np.abs(numbers) <= _LARGEST).all():  # also False for NaN
        wrong = numbers[~(np.abs(numbers) <= _LARGEST)][0]
        raise UserError("the costs of an assignment", expected=f"numbers between +-{_LARGEST:g}", got=wrong)
    if counts.max(initial=0) > columns:
        raise UserError("the rows of an assignment", expected=f"at most {columns}, one per column", got=counts.max())
    if not rows or not columns:
        return np.full(costs.shape[:2], -1, dtype=np.int64)
    kept = _useful_columns(costs, is_used)
    problems = _Problems(np.take_along_axis(costs, kept[:, None], axis=2), is_used)
    while len(problems.active):
        problems.step()
    found = np.take_along_axis(kept, np.maximum(problems.column_of, 0), axis=1)
    return np.where(problems.column_of < 0, -1, found)


def _useful_columns(costs: Floats, is_used: NDArray[np.bool_]) -> Integers:
    """Return the columns that a best assignment needs, and some others: (problems, fewer columns).

    With n rows, each row needs only its n cheapest columns: the other rows cannot occupy all of them.
    """
    count, rows, columns = costs.shape
    if 2 * rows >= columns:
        return np.broadcast_to(np.arange(columns), (count, columns))
    cheapest = np.argpartition(costs, rows - 1, axis=2)[..., :rows]
    useful = np.zeros((count, columns), dtype=np.bool_)
    problem, row = np.nonzero(is_used)
    useful[problem[:, None], cheapest[problem, row]] = True
    most = max(int(useful.sum(axis=1).max(initial=0)), int(is_used.sum(axis=1).max(initial=0)))
    return np.argsort(~useful, axis=1, kind="stable")[:, :most]


class _Problems:
    """Partial assignments and the paths that are being extended, one per unfinished problem (`active`).

    row_price, column_price: the dual variables; their sum is at most the cost, and equal to it for assigned pairs.
    distance: from the first row of a path to each column. before: the row from which a path enters a column.
    """

    def __init__(self, costs: Floats, is_used: NDArray[np.bool_]) -> None:
        count, rows, columns = costs.shape
        self.costs, self.is_used = costs, is_used
        self.row_price, self.column_price = costs.min(axis=2), np.zeros((count, columns))
        self.column_of: Integers = np.full((count, rows), -1, dtype=np.int64)
        self.row_of: Integers = np.full((count, columns), -1, dtype=np.int64)
        cheapest = costs.argmin(axis=2)
        for row in range(rows):  # rows whose cheapest column is still free
            taken = np.nonzero(is_used[:, row] & (self.row_of[np.arange(count), cheapest[:, row]] < 0))[0]
            self.row_of[taken, cheapest[taken, row]] = row
            self.column_of[taken, row] = cheapest[taken, row]
        self.distance, self.before = np.empty((count, columns)), np.empty((count, columns), dtype=np.int64)
        self.is_open = np.empty((count, columns), dtype=np.bool_)
        self.first, self.row = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        self.length = np.empty(count)
        self.active = self._begin(np.arange(count))

    def step(self) -> None:
        """Extend the path of each active problem by its nearest column; where that one is free, assign along the path
        and begin the next one."""
        active = self.active
        row, is_open, distance = self.row[active], self.is_open[active], self.distance[active]
        start = self.length[active] - self.row_price[active, row]
        through = self.costs[active, row] - self.column_price[active] + start[:, None]
        shorter = is_open & (through < distance)
        distance = np.where(shorter, through, distance)
        self.distance[active] = distance
        self.before[active] = np.where(shorter, row[:, None], self.before[active])
        column = np.where(is_open, distance, np.inf).argmin(axis=1)
        self.length[active] = distance[np.arange(len(active)), column]
        self.is_open[active, column] = False
        self.row[active] = owner = self.row_of[active, column]
        ended = owner < 0
        if ended.any():
            self._assign(active[ended], column[ended])
            self.active = np.concatenate([active[~ended], self._begin(active[ended])])

    def _begin(self, which: Integers) -> Integers:
        """Begin a path at a row without a column; return the problems that have such a row."""
        missing = self.is_used[which] & (self.column_of[which] < 0)
        some = missing.any(axis=1)
        which, first = which[some], missing[some].argmax(axis=1)
        self.first[which] = self.row[which] = first
        self.length[which], self.distance[which], self.is_open[which] = 0.0, np.inf, True
        return which

    def _assign(self, which: Integers, column: Integers) -> None:
        """Change the prices, and move the pairs along the path that ends at a free column."""
        length, first = self.length[which], self.first[which]
        self.row_price[which, first] += length
        visited = ~self.is_open[which]
        visited[np.arange(len(which)), column] = False
        problem, passed = np.nonzero(visited)
        saved = length[problem] - self.distance[which[problem], passed]
        self.row_price[which[problem], self.row_of[which[problem], passed]] += saved
        self.column_price[which[problem], passed] -= saved
        while len(which):
            row = self.before[which, column]
            following = self.column_of[which, row]
            self.row_of[which, column], self.column_of[which, row] = row, column
            going = row != first
            which, column, first = which[going], following[going], first[going]
