"""Attention rollout: all layers as one map (Abnar and Zuidema, 2020), from the last layer back to the first.

Rollout is a product of matrices, (A_L / 2 + I / 2) ... (A_1 / 2 + I / 2). Only the rows of the readout tokens are
needed, so these rows are propagated back layer by layer, and no product of two large matrices is computed. From a
stage of a pyramid to the one before, the weight of a token is split evenly over the tokens it was made of; so is the
weight of a reduced key. Leading tokens that begin in a later stage have no position in the image and are left out.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from patchword.analysis.attention.geometry import Geometry
from patchword.analysis.attention.maps import Layer, layers, patches, readout_row, require_attention
from patchword.core.grid import Grid

Step = Callable[[int, Tensor], Tensor]  # layer index, rows over its tokens -> rows over the same tokens


def rollout(model: nn.Module, images: Tensor, geometry: Geometry | None = None) -> Tensor:
    """Return (batch, rows, columns): how much each patch of the first stage contributes through all layers."""
    geometry = geometry or Geometry(model)
    found = layers(model, images, geometry)
    require_attention(model, found)
    readers = readout_row(found[-1].grid).to(images.device)
    return patches(rollout_rows(found, geometry, readers), found[0].grid)[:, 0]


def rollout_rows(found: Sequence[Layer], geometry: Geometry, readers: Tensor) -> Tensor:
    """(batch or 1, rows, tokens of the last layer) -> (batch, rows, tokens of the first layer)"""

    def step(number: int, rows: Tensor) -> Tensor:
        layer = found[number]
        return 0.5 * rows + 0.5 * on_tokens(layer, layer.mean_attended_by(rows), geometry)

    return propagate_back(found, geometry, readers, step)


def propagate_back(found: Sequence[Layer], geometry: Geometry, rows: Tensor, step: Step) -> Tensor:
    """Propagate rows over the tokens of the last layer back to the tokens of the first."""
    for number in reversed(range(len(found))):
        rows = step(number, rows)
        if number and found[number].stage != found[number - 1].stage:
            rows = _before(found[number], found[number - 1].grid, rows, geometry)
    return rows


def on_tokens(layer: Layer, keys: Tensor, geometry: Geometry) -> Tensor:
    """(..., keys) -> (..., tokens): the weight of a reduced key is split over the tokens it is made of."""
    spread = geometry.keys(layer.name, layer.grid, layer.key_grid)
    return keys if spread is None else spread.back(keys, layer.key_grid)


def _before(layer: Layer, grid: Grid, rows: Tensor, geometry: Geometry) -> Tensor:
    """Map rows from the tokens of a stage to those of the stage before, whose leading tokens get zero."""
    spread = geometry.entry(layer.stage, grid)
    assert spread is not None, "a stage of tokens follows a stage of tokens"
    return torch.nn.functional.pad(spread.back(rows, layer.grid), (grid.prefix, 0))
