"""RoIAlign over a pyramid of maps in one call, with fixed shapes."""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.geometry.boxes import box_areas
from patchword.kernels.roi_align.reference import roi_align_masks_reference, roi_align_reference

Samples = int | Literal["adaptive"]


def roi_align(
    maps: Sequence[Tensor],
    boxes: Tensor,
    levels: Tensor,
    strides: Sequence[float],
    size: tuple[int, int],
    *,
    aligned: bool,
    samples: Samples,
) -> Tensor:
    """Return the features of each box, averaged over samples in size[0] x size[1] bins (He et al., 2017).

    maps: one (batch, channels, height, width) per level. boxes: (batch, boxes, 4) in pixels of the image.
    levels: (batch, boxes), the map that each box reads, or -1 for a box whose features are 0.
    strides: image pixels per cell of each map.
    aligned: subtract half a cell from the corners; if False, sides are at least one cell.
    samples: samples per bin and axis; "adaptive" takes ceil(bin size), in cells, for each box.
    Result: (batch, boxes, channels, *size). Gradients flow to the maps, not to the boxes.
    """
    _check_samples(samples)
    if len(maps) != len(strides):
        raise UserError("roi_align", expected=f"one stride per map, {len(maps)}", got=len(strides))
    return roi_align_reference(maps, boxes, levels, strides, size, aligned, _count(samples))


def roi_align_masks(
    masks: Tensor, boxes: Tensor, index: Tensor, size: tuple[int, int], *, aligned: bool, samples: Samples
) -> Tensor:
    """Return RoIAlign of one mask per box.

    masks: (batch, objects, height, width) at the size of the image. boxes: (batch, boxes, 4) in pixels.
    index: (batch, boxes), the mask that each box reads. Result: (batch, boxes, *size) in float32.
    """
    _check_samples(samples)
    return roi_align_masks_reference(masks, boxes, index, size, aligned, _count(samples))


def box_levels(boxes: Tensor, levels: int, finest: float = 56.0) -> Tensor:
    """Return the level of each box: floor(log2(sqrt(area) / finest + 1e-6)), limited to 0 .. levels - 1.

    Boxes with sides below 2 * finest belong to the first level; each doubling moves up by one (Lin et al., 2017).
    """
    level = (box_areas(boxes).sqrt() / finest + 1e-6).log2().floor()
    return level.clamp(0, levels - 1).long()


def _check_samples(samples: Samples) -> None:
    if samples != "adaptive" and (not isinstance(samples, int) or samples < 1):
        raise UserError("roi_align samples", expected='a positive integer or "adaptive"', got=repr(samples))


def _count(samples: Samples) -> int | None:
    return None if isinstance(samples, str) else samples
