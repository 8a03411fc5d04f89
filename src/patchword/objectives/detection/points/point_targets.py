"""Targets of RepPoints v2: which cell learns which object first, where corners are, and the semantic map."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.geometry.boxes import box_areas, box_centers
from patchword.core.geometry.objects import Targets, take


@dataclass(frozen=True)
class NearestPointAssigner:
    """Gives each object the cell nearest to its center, on the level that fits its size.

    scale: an object whose sides have the geometric mean `scale` * 2^n belongs to the level of stride 2^n, rounded down.
    A cell that is nearest to several objects takes the closest one, measured in sizes of the object.
    """

    scale: float = 4.0

    @torch.no_grad()
    def __call__(self, centers: Tensor, strides: Tensor, objects: Tensor, valid: Tensor) -> Tensor:
        """Return 0 for a cell without an object, k for object k - 1: (batch, cells).

        centers: (cells, 2), x and y in pixels. strides: (cells, 1). objects: (batch, objects, 4).
        valid: (batch, objects), False for padding.
        """
        size = (objects[..., 2:] - objects[..., :2]).clamp(min=1e-6)
        levels = strides[:, 0].log2()
        own = (size / self.scale).log2().mean(dim=-1).trunc()
        own = torch.maximum(torch.minimum(own, levels.amax()), levels.amin())
        offset = (centers - box_centers(objects)[:, :, None]) / size[:, :, None]
        usable = (own[..., None] == levels.trunc()) & valid[..., None]
        distance = offset.square().sum(dim=-1).sqrt().masked_fill(~usable, torch.inf)
        nearest = distance.min(dim=2, keepdim=True)
        kept = torch.full_like(distance, torch.inf).scatter(2, nearest.indices, nearest.values)
        closest = kept.min(dim=1)
        return torch.where(closest.values.isfinite(), closest.indices + 1, 0)


class CornerTargets(NamedTuple):
    """heat: (batch, cells), 1 at the cell nearest to a corner on each level, falling around it. positive: these cells.
    offsets: (batch, cells, 2), x and y from a positive cell to its corner, in cells."""

    heat: Tensor
    positive: Tensor
    offsets: Tensor


@torch.no_grad()
def corner_targets(
    corners: Tensor, radius: Tensor, valid: Tensor, centers: Tensor, strides: Tensor, counts: Sequence[int]
) -> CornerTargets:
    """Return the targets of one corner of all objects.

    corners: (batch, objects, 2). radius: (batch, objects), in pixels: where heat falls to 0. valid: (batch, objects).
    centers: (cells, 2). strides: (cells, 1). counts: cells of each level. Of corners nearest to one cell, it learns the
    last.
    """
    sigma, number = (2 * radius + 1) / 6, torch.arange(1, valid.shape[1] + 1, device=valid.device) * valid
    heats, owners = [], []
    for own in centers.split(list(counts)):
        square = (own - corners[:, :, None]).square().sum(dim=-1)
        near = (square.sqrt() < radius[..., None]) & valid[..., None]
        heat = (-square / (2 * sigma[..., None] ** 2)).exp().where(near, 0.0)
        heats.append(heat.amax(dim=1))
        none = torch.zeros_like(heats[-1], dtype=torch.long)
        owners.append(none.scatter_reduce(1, square.argmin(dim=2), number, "amax"))
    owner = torch.cat(owners, dim=1)
    positive = owner > 0
    offsets = (take(corners, (owner - 1).clamp(min=0)) - centers) / strides
    return CornerTargets(torch.where(positive, 1.0, torch.cat(heats, dim=1)), positive, offsets)


def gaussian_radius(boxes: Tensor, iou: float) -> Tensor:
    """Return how far both corners may move so that a box keeps this IoU (Law and Deng, 2018): (..., 4) -> (...).

    The least of three cases, each the root of a quadratic equation: both corners move to one side, in, or out.
    """
    width, height = (boxes[..., 2:] - boxes[..., :2]).unbind(-1)
    total, area = width + height, width * height

    def root(a: float, b: Tensor, c: Tensor, sign: int) -> Tensor:
        return (b + sign * (b**2 - 4 * a * c).clamp(min=0).sqrt()) / (2 * a)

    shifted = root(1, total, area * (1 - iou) / (1 + iou), -1)
    inside = root(4, 2 * total, (1 - iou) * area, -1)
    outside = root(4 * iou, -2 * iou * total, (iou - 1) * area, 1)
    return torch.minimum(torch.minimum(shifted, inside), outside)


@torch.no_grad()
def semantic_weights(targets: Targets, classes: int, shape: tuple[int, int], stride: int) -> Tensor:
    """Return 1 / area of the smallest box of each class that covers a cell, or 0: (batch, classes, *shape)."""
    cells = targets.boxes.div(stride).trunc()
    rows, columns = (torch.arange(side, device=cells.device) for side in shape)
    x1, y1, x2, y2 = cells[..., None].unbind(-2)
    tall, wide = (rows >= y1) & (rows <= y2), (columns >= x1) & (columns <= x2)
    inverse = 1 / box_areas(targets.boxes).clamp(min=1e-6) * targets.valid
    weights = inverse[..., None, None] * (tall[..., None] & wide[..., None, :])
    empty = weights.new_zeros(len(targets), classes, *shape)
    return empty.scatter_reduce(1, targets.labels[..., None, None].expand_as(weights), weights, "amax")
