"""The head of RepPoints v2 (Chen et al., 2020): nine points per cell, refined where they lie, corners and classes."""

from collections.abc import Sequence
from functools import partial
from math import log
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from patchword.kernels.deformable_conv import deformable_conv
from patchword.layers.dense.constants import constant
from patchword.layers.dense.full_precision import full_precision
from patchword.layers.dense.points.conv_norm import conv_norm
from patchword.layers.dense.points.corner_branch import CornerBranch
from patchword.layers.random_values import normal

POINTS = 9
_GRID = tuple(float(number) for tap in range(POINTS) for number in (tap // 3 - 1, tap % 3 - 1))  # y, x of each tap
_PRIOR = 0.01  # probability of each class and corner at the start of training


class PointsOutput(NamedTuple):
    """Predictions at all cells, finest level first.

    logits: (batch, cells, classes). first, refined: (batch, cells, 18), y and x of each point relative to its cell, in
        cells; the first point is the upper left corner of the box, the second one the lower right corner.
    corner_scores: logits (batch, cells, 2), upper left and lower right. corner_offsets: (batch, cells, 4), x and y of
        each, in cells. semantic: logits (batch, cells, classes). shapes: height and width of each level.
    """

    logits: Tensor
    first: Tensor
    refined: Tensor
    corner_scores: Tensor
    corner_offsets: Tensor
    semantic: Tensor
    shapes: tuple[tuple[int, int], ...]


class DeformableConv(nn.Module):
    """A 3x3 convolution whose taps read the map at given offsets; it has no bias."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, width, 3, 3))

    def forward(self, features: Tensor, offsets: Tensor) -> Tensor:
        """(batch, width, height, width of the map), (batch, 18, ...) -> (batch, outputs, ...)"""
        return deformable_conv(features, offsets, self.weight)


class RepPointsHead(nn.Module):
    """Towers of convolutions over each map, corners, first points, and what is read at the points.

    width: channels of the maps and of all convolutions. depth: convolutions of each of the two towers.
    shared_depth: convolutions before corners and semantic map, after the tower of the points.
    corner_width: channels of the pooled corners. groups: of group normalization.
    merge_groups: of the norms that merge pooled corners (the authors' code always has 32); None: as many as `groups`.
    point_gradient: factor of the gradient that flows through the place where refinement and classes are read.
    """

    if TYPE_CHECKING:

        def __call__(self, maps: Sequence[Tensor]) -> PointsOutput:
            """Call `forward` and the hooks."""

    def __init__(
        self,
        width: int,
        classes: int,
        *,
        depth: int,
        shared_depth: int,
        corner_width: int,
        groups: int,
        merge_groups: int | None = None,
        point_gradient: float = 0.1,
    ) -> None:
        super().__init__()
        self.point_gradient = point_gradient
        self.class_tower = nn.Sequential(*(conv_norm(width, width, 3, groups) for _ in range(depth)))
        self.point_tower = nn.Sequential(*(conv_norm(width, width, 3, groups) for _ in range(depth)))
        self.shared_tower = nn.Sequential(*(conv_norm(width, width, 3, groups) for _ in range(shared_depth)))
        self.semantic_output = nn.Conv2d(width, classes, 1)
        self.semantic_embedding = conv_norm(width, width, 1, groups)
        branch = partial(CornerBranch, width, corner_width, groups, merge_groups or groups)
        self.upper_left, self.lower_right = branch(("top", "left")), branch(("bottom", "right"))
        self.first_conv = nn.Conv2d(width, width, 3, padding=1)
        self.first_output = nn.Conv2d(width, 2 * POINTS, 1)
        self.class_conv = DeformableConv(width + 6, width)
        self.class_output = nn.Conv2d(width, classes, 1)
        self.refine_conv = DeformableConv(width + 6, width)
        self.refine_output = nn.Conv2d(width, 2 * POINTS, 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal weights with a standard deviation of 0.01, zero biases, and the prior of classes and corners.

        The convolutions inside the corner branches and the semantic embedding keep the initial values of torch.
        """
        drawn = (*self.class_tower.modules(), *self.point_tower.modules(), *self.shared_tower.modules())
        outputs = [self.semantic_output, self.first_conv, self.first_output, self.class_output, self.refine_output]
        corners = [layer for branch in (self.upper_left, self.lower_right) for layer in (branch.score, branch.offset)]
        for layer in (*drawn, *outputs, *corners, self.class_conv, self.refine_conv):
            if isinstance(layer, nn.Conv2d | DeformableConv):
                normal(layer.weight, std=0.01)
            if isinstance(layer, nn.Conv2d) and layer.bias is not None:
                nn.init.zeros_(layer.bias)
        for layer in (self.semantic_output, self.class_output, self.upper_left.score, self.lower_right.score):
            nn.init.constant_(cast(Tensor, layer.bias), -log((1 - _PRIOR) / _PRIOR))

    def forward(self, maps: Sequence[Tensor]) -> PointsOutput:
        """(batch, width, height, width of the map) per level -> predictions at all cells."""
        levels = [self._level(each) for each in maps]
        logits, first, refined, scores, offsets, semantic = (
            full_precision(torch.cat([_by_cell(each) for each in parts], 1)) for parts in zip(*levels, strict=True)
        )
        shapes = tuple((each.shape[2], each.shape[3]) for each in maps)
        return PointsOutput(logits, first, refined, scores, offsets, semantic, shapes)

    def _level(self, features: Tensor) -> tuple[Tensor, ...]:
        """Return the six maps of one level, in the order of `PointsOutput`."""
        of_class, of_points = self.class_tower(features), self.point_tower(features)
        shared = self.shared_tower(of_points)
        semantic, embedding = self.semantic_output(shared), self.semantic_embedding(shared)
        of_class, of_points, shared = of_class + embedding, of_points + embedding, shared + embedding
        upper_left, lower_right = self.upper_left(shared), self.lower_right(shared)
        scores = torch.cat([upper_left.scores, lower_right.scores], dim=1)
        offsets = torch.cat([upper_left.offsets, lower_right.offsets], dim=1)
        first = full_precision(self.first_output(torch.relu(self.first_conv(of_points))))
        places = self._places(first)
        of_class, of_points = (torch.cat([each, scores, offsets], dim=1) for each in (of_class, of_points))
        logits = self.class_output(torch.relu(self.class_conv(of_class, places)))
        refined = self.refine_output(torch.relu(self.refine_conv(of_points, places))) + first.detach()
        return logits, first, refined, scores, offsets, semantic

    def _places(self, first: Tensor) -> Tensor:
        """Return the points as offsets from the taps of a 3x3 kernel, with a part of their gradient."""
        points = (1 - self.point_gradient) * first.detach() + self.point_gradient * first
        return points - constant(_GRID, first.dtype, first.device)[:, None, None]


def _by_cell(found: Tensor) -> Tensor:
    """(batch, values, rows, columns) -> (batch, rows * columns, values)"""
    return found.flatten(2).transpose(1, 2)
