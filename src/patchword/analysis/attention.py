"""Where a model looks in a picture: each layer's attention, and all layers rolled into one map."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.layers import Attention, AttentionMap, record_attention


class Layer(NamedTuple):
    """One attention layer: (batch, queries, keys), the mean of its heads, and where queries and keys sit."""

    weights: Tensor
    grid: Grid
    key_grid: Grid


def class_attention(model: nn.Module, images: Tensor) -> list[Tensor]:
    """How much [CLS] looks at each patch: (batch, rows, columns) a layer, in the order the layers run.

    A list, since the grids of a pyramid's stages differ. What [CLS] gives to itself and other leading tokens is not in
    the map, so a map sums to less than one. Where there is no leading token, the mean over all queries stands for it.
    The model must be in evaluation mode.
    """
    return [looked_at(layer) for layer in layers(model, images)]


def looked_at(layer: Layer) -> Tensor:
    """(batch, rows, columns): how much the reader of the layer looks at each patch"""
    return patches(reader(layer.weights, layer.grid), layer.key_grid)


def rollout(model: nn.Module, images: Tensor) -> Tensor:
    """(batch, rows, columns): how much of each patch reaches [CLS] through all layers (Abnar and Zuidema, 2020).

    A pyramid's stages have tokens of their own, so of a pyramid it is the last stage that is rolled out.
    """
    recorded = layers(model, images)
    if not recorded:
        raise UserError(
            "attention rollout", expected="a model with attention", got=f"{type(model).__name__} without it"
        )
    grid = recorded[-1].grid
    stage = [layer for layer in recorded if layer.grid == grid]
    if any(layer.key_grid != grid for layer in stage):
        raise UserError("attention rollout", expected="keys on the grid of the queries", got="reduced keys")
    return patches(reader(rolled([layer.weights for layer in stage]), grid), grid)


def rolled(weights: Sequence[Tensor]) -> Tensor:
    """(batch, tokens, tokens) a layer -> their product, the last layer first; half of each is the residual path"""
    identity = torch.eye(weights[0].shape[-1], dtype=weights[0].dtype, device=weights[0].device)
    total = identity.expand_as(weights[0])
    for layer in weights:
        mixed = 0.5 * layer + 0.5 * identity
        total = mixed / mixed.sum(-1, keepdim=True) @ total
    return total


def reader(weights: Tensor, grid: Grid) -> Tensor:
    """(batch, queries, keys) -> (batch, keys): the row of [CLS], or the mean of all rows where there is none"""
    return weights[:, 0] if grid.prefix else weights.mean(1)


def patches(keys: Tensor, grid: Grid) -> Tensor:
    """(batch, keys) -> (batch, rows, columns), without the leading tokens"""
    return keys[:, grid.prefix :].reshape(-1, grid.height, grid.width)


@torch.no_grad()
def layers(model: nn.Module, images: Tensor) -> list[Layer]:
    """Every attention layer of an image model, in the order they run."""
    with record_attention(model) as maps:
        model(images)
    return [_layer(calls) for calls in _by_layer(model, maps)]


def _by_layer(model: nn.Module, maps: list[AttentionMap]) -> Iterator[list[AttentionMap]]:
    """The calls of one layer together: there is one for each of its patterns, and each has its share of the heads."""
    while maps:
        patterns = len(cast(Attention, model.get_submodule(maps[0].layer)).patterns)
        yield maps[:patterns]
        maps = maps[patterns:]


def _layer(calls: list[AttentionMap]) -> Layer:
    grid, key_grid = calls[0].grid, calls[0].key_grid
    assert grid is not None, "an image model's attention knows its grid"
    assert key_grid is not None, "an image model's attention knows its keys' grid"
    return Layer(torch.cat([call.dense() for call in calls], dim=1).mean(1), grid, key_grid)
