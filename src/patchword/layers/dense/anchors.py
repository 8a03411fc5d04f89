"""Anchors: reference boxes of several sizes and ratios at each cell of each map."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from patchword.core.grid import Size, sides
from patchword.layers.dense.constants import constant


@dataclass(frozen=True)
class Anchors:
    """Anchors of a pyramid, centered on the upper left corner of each cell.

    lengths: for each level, the square roots of the areas, in pixels. ratios: height / width.
    rounded: round the corners of an anchor around the origin to integers (torchvision), or not (mmdet, detectron2).
    """

    lengths: tuple[tuple[float, ...], ...]
    ratios: tuple[float, ...]
    rounded: bool

    @property
    def per_cell(self) -> int:
        """The number of anchors at each cell."""
        return len(self.ratios) * len(self.lengths[0])

    def boxes(
        self, shapes: Sequence[tuple[int, int]], strides: Sequence[Size], device: torch.device | str = "cpu"
    ) -> list[Tensor]:
        """Return (cells * per_cell, 4) per level: cells row by row; at a cell by ratio, then by length.

        shapes: height and width of each map. strides: pixels per cell, one number or two (along y and x).
        Outside a compiled graph, the result is cached: do not write to it.
        """
        layout = tuple((tuple(shape), sides(stride)) for shape, stride in zip(shapes, strides, strict=True))
        if torch.compiler.is_compiling():
            return _anchor_boxes(self, layout, torch.device(device))
        return list(_cached_boxes(self, layout, torch.device(device)))


Layout = tuple[tuple[tuple[int, ...], tuple[int, int]], ...]


@lru_cache(maxsize=64)
def _cached_boxes(anchors: Anchors, layout: Layout, device: torch.device) -> tuple[Tensor, ...]:
    with torch.inference_mode(False):  # the cached tensors may be used in training later
        return tuple(_anchor_boxes(anchors, layout, device))


def _anchor_boxes(anchors: Anchors, layout: Layout, device: torch.device) -> list[Tensor]:
    found = []
    for lengths, ((height, width), (down, right)) in zip(anchors.lengths, layout, strict=True):
        y, x = torch.arange(height, device=device) * down, torch.arange(width, device=device) * right
        shift = torch.stack([x.expand(height, -1), y[:, None].expand(-1, width)] * 2, dim=-1)
        found.append((shift.view(-1, 1, 4) + _at_origin(anchors, lengths, device)).view(-1, 4))
    return found


def _at_origin(anchors: Anchors, lengths: tuple[float, ...], device: torch.device) -> Tensor:
    """The anchors around (0, 0): (per cell, 4)."""
    tall = constant(anchors.ratios, torch.get_default_dtype(), device).sqrt()[:, None]
    length = constant(lengths, torch.get_default_dtype(), device)
    corner = torch.stack([length / tall, length * tall], dim=-1).view(-1, 2) / 2
    boxes = torch.cat([-corner, corner], dim=-1)
    return boxes.round() if anchors.rounded else boxes
