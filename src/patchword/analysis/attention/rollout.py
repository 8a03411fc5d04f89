"""All layers as one map: attention rollout (Abnar and Zuidema, 2020), from the last layer back to the first.

Rollout is a product of matrices, (A_L / 2 + I / 2) ... (A_1 / 2 + I / 2). Only the rows of those who ask are wanted, so
these rows are carried back, layer by layer, and no product of two large matrices is formed. From a stage of a pyramid
to the one before, the share of a token is dealt out evenly to the tokens it was made of; so is the share of a reduced
key. What comes from a leading token that begins in a later stage comes from no place of the picture, and is left out.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from patchword.analysis.attention.geometry import Geometry
from patchword.analysis.attention.maps import Layer, answering, layers, patches, require_attention
from patchword.core.grid import Grid

Step = Callable[[int, Tensor], Tensor]  # the number of a layer, rows over its keys' tokens -> rows over the same


def rollout(model: nn.Module, images: Tensor, geometry: Geometry | None = None) -> Tensor:
    """(batch, rows, columns): how much of each patch of the first stage reaches the answer through all layers."""
    geometry = geometry or Geometry(model)
    found = layers(model, images, geometry)
    require_attention(model, found)
    asked = answering(found[-1].grid).to(images.device)
    return patches(rolled_out(found, geometry, asked), found[0].grid)[:, 0]


def rolled_out(found: Sequence[Layer], geometry: Geometry, readers: Tensor) -> Tensor:
    """(batch or 1, readers, tokens of the last layer) -> (batch, readers, tokens of the first layer)"""

    def step(number: int, rows: Tensor) -> Tensor:
        layer = found[number]
        return 0.5 * rows + 0.5 * on_tokens(layer, layer.mixed_by(rows), geometry)

    return carried_back(found, geometry, readers, step)


def carried_back(found: Sequence[Layer], geometry: Geometry, rows: Tensor, step: Step) -> Tensor:
    """Rows over the tokens of the last layer, carried back to the tokens of the first."""
    for number in reversed(range(len(found))):
        rows = step(number, rows)
        if number and found[number].stage != found[number - 1].stage:
            rows = _before(found[number], found[number - 1].grid, rows, geometry)
    return rows


def on_tokens(layer: Layer, keys: Tensor, geometry: Geometry) -> Tensor:
    """(..., keys) -> (..., tokens): reduced keys are dealt out to what they are made of"""
    spread = geometry.keys(layer.name, layer.grid, layer.key_grid)
    return keys if spread is None else spread.back(keys, layer.key_grid)


def _before(layer: Layer, grid: Grid, rows: Tensor, geometry: Geometry) -> Tensor:
    """From the tokens of a stage to those of the one before, whose leading tokens do not go on."""
    spread = geometry.entry(layer.stage, grid)
    assert spread is not None, "a stage of tokens follows a stage of tokens"
    return torch.nn.functional.pad(spread.back(rows, layer.grid), (grid.prefix, 0))
