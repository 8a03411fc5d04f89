"""Where tokens, keys and pixels of an image model lie to each other, found by trial on the model's own parts."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from patchword.analysis.attention_pattern.receptive_field import Footprint, footprint
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import Attention, Projected, Pyramid, Stage

Cell = tuple[float, float]


def stage_of(name: str) -> int:
    """The stage an attention belongs to, from its name in the model, counted from 0; a model without stages is one."""
    pieces = name.split(".")
    return int(pieces[pieces.index("stages") + 1]) if "stages" in pieces else 0


class Spread(NamedTuple):
    """What each coarse token is made of: (coarse, fine) for the rows and for the columns; each row sums to one.

    prefix: whether leading tokens stand in front of both.
    """

    rows: Tensor
    columns: Tensor
    prefix: int = 0

    def back(self, tokens: Tensor, grid: Grid) -> Tensor:
        """(..., coarse tokens) -> (..., fine tokens): the share of each is dealt out evenly to what it is made of"""
        rows, columns = (part.to(tokens) for part in (self.rows, self.columns))
        coarse: Tensor = tokens[..., grid.prefix :].unflatten(-1, (grid.height, grid.width))
        fine = (rows.T @ coarse @ columns).flatten(-2)
        return torch.cat([tokens[..., : self.prefix], fine], dim=-1)


class Geometry:
    """The trials of one model are made once for each grid.

    >>> Geometry(model).keys("stages.0.encoder.blocks.0.attention.sublayer", grid, key_grid)
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._known: dict[tuple[object, ...], Spread | None] = {}

    def cell(self, stage: int, grid: Grid, sides: tuple[int, int]) -> Cell:
        """Height and width of a token in pixels: the strides of the stages so far, padding or not."""
        if isinstance(self.model, Pyramid):
            stride = float(self.model.backbone().strides[stage])
            return stride, stride
        return sides[0] / grid.height, sides[1] / grid.width

    def keys(self, name: str, grid: Grid, key_grid: Grid) -> Spread | None:
        """From the keys of an attention to its tokens; None where every token is a key."""
        if grid == key_grid:
            return None
        place = (stage_of(name), grid, key_grid)
        if place not in self._known:
            attention = cast(Attention, self.model.get_submodule(name))
            found = footprint(attention.projection, attention.output.in_features, grid)
            self._known[place] = _even(found, key_grid.prefix)
        return self._known[place]

    def entry(self, stage: int, grid: Grid) -> Spread | None:
        """From the tokens of a stage to the map of the stage before, `grid`; None where there is no such map."""
        place = (stage, grid)
        if place not in self._known:
            stages: Sequence[nn.Module] = list(self.model.stages) if isinstance(self.model, Pyramid) else []
            here = stages[stage] if stage < len(stages) else None
            known = isinstance(here, Stage) and isinstance(before := stages[stage - 1], Stage) and before.width
            plain = Grid(grid.height, grid.width)
            self._known[place] = _even(footprint(_Entering(cast(Stage, here)), known, plain)) if known else None
        return self._known[place]


class _Entering(nn.Module):
    """The entrance of a stage as a projection, so that the same trial finds what its tokens are made of."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.entrance = stage.entrance

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        assert scope.grid is not None, "a trial knows its grid"
        entered, grid = self.entrance(scope.grid.to_map(tokens)[1])
        return Projected(tokens, entered, entered, None, grid)


def _even(found: Footprint, prefix: int = 0) -> Spread:
    rows, columns = (part.float() / part.sum(1, keepdim=True).clamp(min=1) for part in (found.rows, found.columns))
    return Spread(rows, columns, prefix)


def to_pixels(maps: Tensor, cell: Cell, sides: tuple[int, int]) -> Tensor:
    """(..., rows, columns) -> (..., height, width): every pixel has the value of its patch; padding is cut off"""
    for axis, size, side in ((-2, cell[0], sides[0]), (-1, cell[1], sides[1])):
        place = ((torch.arange(side, device=maps.device) + 0.5) / size).long().clamp(max=maps.shape[axis] - 1)
        maps = maps.index_select(axis, place)
    return maps


def token_at(pixel: tuple[int, int], grid: Grid, cell: Cell) -> int:
    """The token that the pixel (row, column) lies in."""
    row, column = (
        min(int(place // size), last - 1)
        for place, size, last in zip(pixel, cell, (grid.height, grid.width), strict=True)
    )
    return grid.prefix + row * grid.width + column
