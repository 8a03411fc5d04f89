"""Dense heads: classes and boxes at each anchor of each map, with the same weights on all levels."""

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from patchword.layers.dense.full_precision import full_precision
from patchword.layers.random_values import normal


class DenseOutput(NamedTuple):
    """Predictions at all anchors, finest level first.

    logits: (batch, anchors, classes). deltas: (batch, anchors, 4). centerness: logits (batch, anchors), or None.
    counts: number of anchors of each level.
    """

    logits: Tensor
    deltas: Tensor
    centerness: Tensor | None
    counts: tuple[int, ...]


class DenseHead(nn.Module):
    """Convolutions over each map, then the outputs of each anchor.

    width: channels of the maps. classes: 1 for a region proposal network. per_cell: anchors per cell.
    hidden, depth: channels and number of the 3x3 convolutions before the outputs.
    shared: classes and boxes share these convolutions (region proposal networks), or have their own.
    groups: groups of group normalization after each of them, or 0 for none.
    kernel: size of the output convolutions. levels: learned scales of the deltas, one per level, or 0 for none.
    centerness: also predict how central an anchor is in its object (ATSS, FCOS).
    prior: probability of each class at the start of training; None sets the bias to zero.
    """

    if TYPE_CHECKING:

        def __call__(self, maps: Sequence[Tensor]) -> DenseOutput:
            """Call `forward` and the hooks."""

    def __init__(
        self,
        width: int,
        classes: int,
        per_cell: int,
        *,
        hidden: int,
        depth: int,
        shared: bool,
        groups: int = 0,
        kernel: int = 3,
        levels: int = 0,
        centerness: bool = False,
        prior: float | None = None,
    ) -> None:
        super().__init__()
        self.classes = classes
        self.class_tower = _tower(width, hidden, depth, groups)
        self.box_tower = None if shared else _tower(width, hidden, depth, groups)
        padding = kernel // 2
        self.class_output = nn.Conv2d(hidden, per_cell * classes, kernel, padding=padding)
        self.box_output = nn.Conv2d(hidden, per_cell * 4, kernel, padding=padding)
        self.centerness_output = nn.Conv2d(hidden, per_cell, kernel, padding=padding) if centerness else None
        self.scales = nn.Parameter(torch.ones(levels)) if levels else None
        self.prior = prior
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal weights with a standard deviation of 0.01, zero biases, and the prior of the classes."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                normal(layer.weight, std=0.01)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
        if self.prior is not None:
            nn.init.constant_(cast(Tensor, self.class_output.bias), -log((1 - self.prior) / self.prior))

    def forward(self, maps: Sequence[Tensor]) -> DenseOutput:
        """(batch, width, height, width of the map) per level -> predictions at all anchors."""
        logits, deltas, centerness = [], [], []
        for level, features in enumerate(maps):
            of_class = self.class_tower(features)
            of_box = of_class if self.box_tower is None else self.box_tower(features)
            logits.append(_by_anchor(self.class_output(of_class), self.classes))
            boxes = _by_anchor(self.box_output(of_box), 4)
            deltas.append(boxes if self.scales is None else boxes * self.scales[level])
            if self.centerness_output is not None:
                centerness.append(_by_anchor(self.centerness_output(of_box), 1))
        central = full_precision(torch.cat(centerness, dim=1).squeeze(-1)) if centerness else None
        counts = tuple(one.shape[1] for one in logits)
        every, boxes = (full_precision(torch.cat(parts, dim=1)) for parts in (logits, deltas))
        return DenseOutput(every, boxes, central, counts)


def _tower(width: int, hidden: int, depth: int, groups: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for number in range(depth):
        layers.append(nn.Conv2d(hidden if number else width, hidden, 3, padding=1, bias=not groups))
        if groups:
            layers.append(nn.GroupNorm(groups, hidden))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)


def _by_anchor(found: Tensor, values: int) -> Tensor:
    """(batch, per cell * values, rows, columns) -> (batch, rows * columns * per cell, values)"""
    return found.permute(0, 2, 3, 1).reshape(found.shape[0], -1, values)
