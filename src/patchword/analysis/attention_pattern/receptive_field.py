"""The receptive field of a reduced key: which tokens it is made of."""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope


@dataclass(frozen=True)
class KeyReceptiveField:
    """The rectangle of tokens behind each key: (key rows, rows) and (key columns, columns), True where a token is used.

    >>> key_receptive_field(projection, width, grid).rows[3].nonzero()  # the token rows of the fourth row of keys
    """

    rows: Tensor
    columns: Tensor


@torch.no_grad()
def key_receptive_field(projection: nn.Module, width: int, grid: Grid) -> KeyReceptiveField:
    """Find it by probing: set one token at a time to NaN and see which keys become NaN.

    The tokens of a diagonal suffice, since receptive fields are rectangles.
    """
    probe = deepcopy(projection).to_empty(device="cpu").eval()
    for tensor in (*probe.parameters(), *probe.buffers()):
        tensor.fill_(1)
    rows, columns = [], []
    for step in range(max(grid.height, grid.width)):
        row, column = step % grid.height, step % grid.width
        tokens = torch.zeros(1, grid.tokens, width)
        tokens[0, grid.prefix + row * grid.width + column] = torch.nan
        projected = probe(tokens, Scope(grid=grid))
        affected = projected.key_grid.to_map(projected.key)[1][0, 0].isnan()
        rows.append(affected.any(1))
        columns.append(affected.any(0))
    return KeyReceptiveField(torch.stack(rows[: grid.height], 1), torch.stack(columns[: grid.width], 1))
