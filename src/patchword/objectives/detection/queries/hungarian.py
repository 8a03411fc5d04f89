"""The linear assignment problem: pairs of rows and columns with the smallest total cost."""

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
    The algorithm is exact: shortest augmenting paths (Jonker and Volgenant, 1987), O(rows^2 * columns).
    """
    costs = np.asarray(costs, dtype=np.float64)
    if not (np.abs(costs) <= _LARGEST).all():  # also False for NaN
        wrong = costs[~(np.abs(costs) <= _LARGEST)][0]
        raise UserError("the costs of an assignment", expected=f"numbers between +-{_LARGEST:g}", got=wrong)
    rows, columns = costs.shape
    if rows <= columns:
        return _column_of_each_row(costs)
    row_of = _column_of_each_row(costs.T)
    column_of: Integers = np.full(rows, -1, dtype=np.int64)
    column_of[row_of] = np.arange(columns)
    return column_of


def _column_of_each_row(costs: Floats) -> Integers:
    """Solve a problem with at most as many rows as columns."""
    rows, columns = costs.shape
    row_price: Floats = np.zeros(rows)  # the dual variables: row_price + column_price <= costs, equal for the pairs
    column_price: Floats = np.zeros(columns)
    column_of: Integers = np.full(rows, -1, dtype=np.int64)
    row_of: Integers = np.full(columns, -1, dtype=np.int64)
    for first in range(rows):
        _augment(first, costs, row_price, column_price, column_of, row_of)
    return column_of


def _augment(
    first: int, costs: Floats, row_price: Floats, column_price: Floats, column_of: Integers, row_of: Integers
) -> None:
    """Give a column to row `first`: find the cheapest path to a free column, and move the pairs on it."""
    columns = costs.shape[1]
    distance: Floats = np.full(columns, np.inf)  # from `first` to each column
    before: Integers = np.full(columns, -1, dtype=np.int64)  # the row from which a path enters each column
    is_open = np.ones(columns, dtype=np.bool_)
    row, length, visited = first, 0.0, []
    while True:
        through = length + costs[row] - row_price[row] - column_price
        shorter = is_open & (through < distance)
        distance[shorter], before[shorter] = through[shorter], row
        column = int(np.where(is_open, distance, np.inf).argmin())
        length = float(distance[column])
        is_open[column] = False
        if row_of[column] < 0:
            break
        visited.append(column)
        row = int(row_of[column])

    saved = length - distance[visited]
    row_price[first] += length
    row_price[row_of[visited]] += saved
    column_price[visited] -= saved

    while True:
        row = int(before[column])
        row_of[column], column_of[row], column = row, column, int(column_of[row])
        if row == first:
            return
