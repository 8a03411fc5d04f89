"""Corners of objects: corner pooling (Law and Deng, 2018), scores and offsets."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from patchword.core.tracing import is_exporting
from patchword.layers.dense.points.conv_norm import conv_norm

Direction = Literal["top", "left", "bottom", "right"]


def corner_pool(features: Tensor, direction: Direction) -> Tensor:
    """Return the running maximum along an axis of (batch, channels, height, width).

    "top": the maximum of a cell and all cells below it, "left": and all to its right, "bottom": and all above it,
    "right": and all to its left. The upper left corner of an object thereby sees its upper and its left edge.
    """
    axis, from_start = (2 if direction in ("top", "bottom") else 3), direction in ("bottom", "right")
    if is_exporting():
        return _maximum_by_doubling(features, axis, from_start)
    if from_start:
        return features.cummax(dim=axis).values
    return features.flip(axis).cummax(dim=axis).values.flip(axis)


def _maximum_by_doubling(features: Tensor, axis: int, from_start: bool) -> Tensor:
    """Return the running maximum without cummax, which ONNX does not have: windows of 2, 4, 8, ... cells."""
    length, window = features.shape[axis], 1
    while window < length:
        lower, upper = features.narrow(axis, 0, length - window), features.narrow(axis, window, length - window)
        inner = torch.maximum(lower, upper)
        edge = features.narrow(axis, 0 if from_start else length - window, window)
        features = torch.cat([edge, inner] if from_start else [inner, edge], dim=axis)
        window *= 2
    return features


class Corners(NamedTuple):
    """scores: logits (batch, 1, height, width). offsets: x and y in cells, (batch, 2, height, width)."""

    scores: Tensor
    offsets: Tensor


class CornerBranch(nn.Module):
    """Predicts where one corner of an object is.

    width: channels of the maps. inner: channels of the pooled maps. groups: of group normalization.
    merge_groups: of the two norms after the pooling and beside it.
    directions: of the two poolings, which are added.
    """

    def __init__(
        self, width: int, inner: int, groups: int, merge_groups: int, directions: tuple[Direction, Direction]
    ) -> None:
        super().__init__()
        self.directions = directions
        self.first, self.second = conv_norm(width, inner, 3, groups), conv_norm(width, inner, 3, groups)
        self.merge = conv_norm(inner, width, 3, merge_groups, relu=False)
        self.skip = conv_norm(width, width, 1, merge_groups, relu=False)
        self.output = conv_norm(width, width, 1, groups)
        self.score, self.offset = nn.Conv2d(width, 1, 3, padding=1), nn.Conv2d(width, 2, 3, padding=1)

    def forward(self, features: Tensor) -> Corners:
        """(batch, width, height, width of the map) -> scores and offsets at each cell"""
        first, second = self.directions
        pooled = corner_pool(self.first(features), first) + corner_pool(self.second(features), second)
        found = self.output(torch.relu(self.merge(pooled) + self.skip(features)))
        return Corners(self.score(found), self.offset(found))
