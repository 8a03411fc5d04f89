"""How tokens, keys and pixels of an image model map to each other, found by probing the model's own modules."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from patchword.analysis.attention_pattern.receptive_field import KeyReceptiveField, key_receptive_field
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import Attention, Projected, Pyramid, Stage

Cell = tuple[float, float]


def stage_of(name: str) -> int:
    """Return the stage of an attention layer from its name, counted from 0; a model without stages has one."""
    pieces = name.split(".")
    return int(pieces[pieces.index("stages") + 1]) if "stages" in pieces else 0


class Spread(NamedTuple):
    """Which fine tokens each coarse token is made of: (coarse, fine) for rows and for columns; each row sums to one.

    prefix: the number of leading tokens, in front of both.
    """

    rows: Tensor
    columns: Tensor
    prefix: int = 0

    def back(self, tokens: Tensor, grid: Grid) -> Tensor:
        """(..., coarse tokens) -> (..., fine tokens): split each value evenly over the fine tokens."""
        rows, columns = (part.to(tokens) for part in (self.rows, self.columns))
        coarse: Tensor = tokens[..., grid.prefix :].unflatten(-1, (grid.height, grid.width))
        fine = (rows.T @ coarse @ columns).flatten(-2)
        return torch.cat([tokens[..., : self.prefix], fine], dim=-1)


class Geometry:
    """Probes a model once per grid and caches the result.

    >>> Geometry(model).keys("stages.0.encoder.blocks.0.attention.sublayer", grid, key_grid)
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._known: dict[tuple[object, ...], Spread | None] = {}

    def cell(self, stage: int, grid: Grid, sides: tuple[int, int]) -> Cell:
        """Return height and width of a token in pixels: the product of the strides up to the stage."""
        if isinstance(self.model, Pyramid):
            stride = float(self.model.backbone().strides[stage])
            return stride, stride
        return sides[0] / grid.height, sides[1] / grid.width

    def keys(self, name: str, grid: Grid, key_grid: Grid) -> Spread | None:
        """Return the map from an attention layer's keys to its tokens; None where every token is a key."""
        if grid == key_grid:
            return None
        place = (stage_of(name), grid, key_grid)
        if place not in self._known:
            attention = cast(Attention, self.model.get_submodule(name))
            found = key_receptive_field(attention.projection, attention.output.in_features, grid)
            self._known[place] = _even(found, key_grid.prefix)
        return self._known[place]

    def entry(self, stage: int, grid: Grid) -> Spread | None:
        """Return the map from a stage's tokens to the map of the stage before, `grid`; None where there is none."""
        place = (stage, grid)
        if place not in self._known:
            stages: Sequence[nn.Module] = list(self.model.stages) if isinstance(self.model, Pyramid) else []
            here = stages[stage] if stage < len(stages) else None
            known = isinstance(here, Stage) and isinstance(before := stages[stage - 1], Stage) and before.width
            plain = Grid(grid.height, grid.width)
            self._known[place] = (
                _even(key_receptive_field(_StemProjection(cast(Stage, here)), known, plain)) if known else None
            )
        return self._known[place]


class _StemProjection(nn.Module):
    """The stem of a stage as a projection, so that `key_receptive_field` can probe it."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stem = stage.stem

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        assert scope.grid is not None, "a probe has a grid"
        entered, grid = self.stem(scope.grid.to_map(tokens)[1])
        return Projected(tokens, entered, entered, None, grid)


def _even(found: KeyReceptiveField, prefix: int = 0) -> Spread:
    rows, columns = (part.float() / part.sum(1, keepdim=True).clamp(min=1) for part in (found.rows, found.columns))
    return Spread(rows, columns, prefix)


def to_pixels(maps: Tensor, cell: Cell, sides: tuple[int, int]) -> Tensor:
    """(..., rows, columns) -> (..., height, width): every pixel takes the value of its patch; padding is cut off."""
    for axis, size, side in ((-2, cell[0], sides[0]), (-1, cell[1], sides[1])):
        place = ((torch.arange(side, device=maps.device) + 0.5) / size).long().clamp(max=maps.shape[axis] - 1)
        maps = maps.index_select(axis, place)
    return maps


def token_at(pixel: tuple[int, int], grid: Grid, cell: Cell) -> int:
    """Return the token that contains the pixel (row, column)."""
    row, column = (
        min(int(place // size), last - 1)
        for place, size, last in zip(pixel, cell, (grid.height, grid.width), strict=True)
    )
    return grid.prefix + row * grid.width + column
