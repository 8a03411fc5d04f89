"""Which tokens a reduced key is made of."""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope


@dataclass(frozen=True)
class Footprint:
    """The rectangles of tokens that become keys: (key rows, rows) and (key columns, columns), True where they feed it.

    >>> footprint(projection, width, grid).rows[3].nonzero()  # the rows of tokens behind the fourth row of keys
    """

    rows: Tensor
    columns: Tensor


@torch.no_grad()
def footprint(projection: nn.Module, width: int, grid: Grid) -> Footprint:
    """Found by trial: one token at a time is not a number, and neither are the keys made of it.

    The tokens of a diagonal suffice, since footprints are rectangles.
    """
    trial = deepcopy(projection).to_empty(device="cpu").eval()
    for tensor in (*trial.parameters(), *trial.buffers()):
        tensor.fill_(1)
    rows, columns = [], []
    for step in range(max(grid.height, grid.width)):
        row, column = step % grid.height, step % grid.width
        tokens = torch.zeros(1, grid.tokens, width)
        tokens[0, grid.prefix + row * grid.width + column] = torch.nan
        projected = trial(tokens, Scope(grid=grid))
        spoiled = projected.key_grid.to_map(projected.key)[1][0, 0].isnan()
        rows.append(spoiled.any(1))
        columns.append(spoiled.any(0))
    return Footprint(torch.stack(rows[: grid.height], 1), torch.stack(columns[: grid.width], 1))
