"""Attention maps: the attention weights of every layer, mapped back to token positions.

Weights stay in the groups in which they were computed (windows, stripes, pales). A row over the queries (how much each
query counts) is multiplied through them to a row over the keys, by the indices with which the model split its tokens;
so a map of a Swin never needs the matrix over all pairs of tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn

from patchword.analysis.attention.geometry import Cell, Geometry, stage_of
from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.core.text import Text
from patchword.layers import Attention, AttentionMap, TokenMixing, members, record_attention


@dataclass(frozen=True, eq=False)
class Layer:
    """One recorded attention layer. cell: height and width of a token in pixels, or in tokens of a text."""

    name: str  # of the attention in the model
    calls: tuple[AttentionMap, ...]  # one per pattern, each with its group of heads
    cell: Cell

    @property
    def stage(self) -> int:
        return stage_of(self.name)

    @property
    def heads(self) -> int:
        return sum(call.weights.shape[1] for call in self.calls)

    @property
    def is_text(self) -> bool:
        return self.calls[0].grid is None

    @property
    def grid(self) -> Grid:
        """The grid of the queries; a text is one row."""
        return self.calls[0].grid or Grid(1, self.calls[0].weights.shape[2])

    @property
    def key_grid(self) -> Grid:
        return self.calls[0].key_grid or Grid(1, self.calls[0].weights.shape[3])

    def dense(self) -> Tensor:
        """(batch, heads, queries, keys), zero where a query does not attend to a key."""
        return torch.cat([call.dense() for call in self.calls], dim=1)

    def summed(self) -> Tensor:
        """(heads, queries, keys): `dense` summed over the batch, without holding the whole batch."""
        parts = []
        for call in self.calls:
            total = call.weights.unflatten(0, (-1, len(call.groups()))).sum(0)
            parts.append(replace(call, weights=total).dense()[0])
        return torch.cat(parts)

    @cached_property
    def mean(self) -> Tensor:
        """(batch, queries, keys): the mean of the heads."""
        return self.dense().mean(1)

    def attended_by(self, readers: Tensor) -> Tensor:
        """(batch or 1, rows, queries) query weights -> (batch, heads, rows, keys): what these queries attend to."""
        return torch.cat([propagated(call, call.weights, readers) for call in self.calls], dim=1)

    def mean_attended_by(self, readers: Tensor) -> Tensor:
        """(batch, rows, keys): the same, as the mean of the heads."""
        parts = [propagated(call, call.weights.mean(1, keepdim=True), readers)[:, 0] for call in self.calls]
        return torch.stack(parts).mean(0)  # patterns have equal numbers of heads


def propagated(call: AttentionMap, weights: Tensor, readers: Tensor) -> Tensor:
    """(batch * groups, heads, size, keys), (batch or 1, rows, queries) -> (batch, heads, rows, keys)

    Padding has the index -1: it attends to nothing, and attention to it is dropped.
    """
    queries, keys = call.groups().to(weights.device), key_groups(call).to(weights.device)
    grouped: Tensor = weights.unflatten(0, (-1, len(queries)))
    querying = nn.functional.pad(readers.to(weights.dtype), (0, 1))[:, :, queries].expand(len(grouped), -1, -1, -1)
    read = torch.einsum("brgs,bghsk->bhrgk", querying, grouped).flatten(3)
    count = int(keys.max()) + 1
    places = torch.where(keys < 0, count, keys).flatten()
    return read.new_zeros(*read.shape[:3], count + 1).index_add_(3, places, read)[..., :count]


def key_groups(call: AttentionMap) -> Tensor:
    """(groups, keys per group): the indices of the keys; -1 is padding."""
    tokens = call.weights.shape[3] if call.key_grid is None else call.key_grid.tokens
    return members(call.partition, tokens, call.key_grid)


def layers(model: nn.Module, inputs: Tensor | Text, geometry: Geometry | None = None) -> list[Layer]:
    """Record every attention layer, in the order they run. inputs: prepared images, or a Text."""
    with torch.no_grad(), record_attention(model) as maps:
        model(inputs)
    geometry = geometry or Geometry(model)
    sides = (inputs.shape[2], inputs.shape[3]) if isinstance(inputs, Tensor) and inputs.ndim == 4 else None
    found = []
    for calls in _by_layer(model, maps):
        grid = calls[0].grid
        cell = (1.0, 1.0) if grid is None or sides is None else geometry.cell(stage_of(calls[0].layer), grid, sides)
        found.append(Layer(calls[0].layer, calls, cell))
    return found


def _by_layer(model: nn.Module, maps: list[AttentionMap]) -> Iterator[tuple[AttentionMap, ...]]:
    """Yield the calls of each layer together: one per pattern, each with its group of heads."""
    while maps:
        patterns = len(cast(Attention, model.get_submodule(maps[0].layer)).patterns)
        yield tuple(maps[:patterns])
        maps = maps[patterns:]


class NoAttentionError(UserError):
    """A model without attention was asked for it; the hint says what it has instead."""


def require_attention(model: nn.Module, found: list[Layer]) -> None:
    """Raise an error if a model has no attention."""
    if found:
        return
    mixes = any(isinstance(module, TokenMixing) for module in model.modules())
    instead = "its token-mixing MLPs" if mixes else "its convolutions"
    name = getattr(getattr(model, "card", None), "model", type(model).__name__)
    raise NoAttentionError(
        f"{name!r} has no attention",
        expected="a model with attention",
        hint=f"{instead} mix tokens by fixed weights that do not depend on the image",
    )


def readout_row(grid: Grid) -> Tensor:
    """(1, 1, queries): 1 for [CLS], from which the class is predicted, or the mean of all queries if there is none."""
    row = torch.zeros(1, 1, grid.tokens)
    if grid.prefix:
        row[..., 0] = 1
    else:
        row[:] = 1 / grid.tokens
    return row


def class_attention(model: nn.Module, images: Tensor) -> list[Tensor]:
    """Return how much [CLS] attends to each patch: (batch, rows, columns) per layer, in the order the layers run.

    A list, since the grids of a pyramid's stages differ. Attention of [CLS] to leading tokens is not in the map, so a
    map sums to less than one. Without a leading token, it is the mean over all queries. The model must be in
    evaluation mode.
    """
    return [attention_to_patches(layer) for layer in layers(model, images)]


def attention_to_patches(layer: Layer) -> Tensor:
    """(batch, rows, columns): attention to each patch, from [CLS] or the mean of all queries, on the keys' grid."""
    return patches(layer.mean_attended_by(readout_row(layer.grid).to(layer.calls[0].weights.device)), layer.key_grid)[
        :, 0
    ]


def patches(keys: Tensor, grid: Grid) -> Tensor:
    """(..., keys) -> (..., rows, columns), without the leading tokens."""
    found: Tensor = keys[..., grid.prefix :].unflatten(-1, (grid.height, grid.width))
    return found
