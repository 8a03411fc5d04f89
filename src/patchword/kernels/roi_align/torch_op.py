"""RoIAlign and its gradient as operations of torch, which compiled models run.

Neither has an autograd rule; autograd.py registers it. An operation takes maps of any strides. The kernels read maps
that are contiguous in one of two layouts, (batch, channels, height, width) or channels last; others are copied.
"""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from patchword.kernels.roi_align.tuning import MAX_LEVELS, WARPS, blocks
from patchword.kernels.window_attention.torch_op import LIBRARY, TAGS, allocate, on_device

__all__ = ["GIVEN", "LIBRARY", "TAGS", "pool_maps", "pool_maps_fake", "roi_align_backward", "roi_align_forward"]
Value = TypeVar("Value")
# Without fused multiply-add: rounding decides whether a sample at the border of a map counts, as in the reference.
_LAUNCH = {"num_warps": WARPS, "enable_fp_fusion": False}
_RULE = "float[] strides, SymInt[] size, bool aligned, SymInt samples, bool channels_last"
GIVEN = f"Tensor[] maps, Tensor boxes, Tensor levels, {_RULE}, ScalarType dtype"
LIBRARY.define(f"roi_align_forward({GIVEN}) -> Tensor", tags=TAGS)
LIBRARY.define(
    f"roi_align_back(Tensor gradient, Tensor[] maps, Tensor boxes, Tensor levels, {_RULE}) -> Tensor[]", tags=TAGS
)
LIBRARY.define(
    "roi_align_masks(Tensor masks, Tensor boxes, Tensor index, SymInt[] size, bool aligned, SymInt samples) -> Tensor",
    tags=TAGS,
)
roi_align_forward = torch.ops.patchword.roi_align_forward.default
roi_align_backward = torch.ops.patchword.roi_align_back.default
roi_align_masks_forward = torch.ops.patchword.roi_align_masks.default


@torch.library.impl(LIBRARY, "roi_align_forward", "CompositeExplicitAutograd")
def pool_maps(
    maps: list[Tensor], boxes: Tensor, levels: Tensor, strides: list[float], size: list[int], aligned: bool,
    samples: int, channels_last: bool, dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """Return (batch, boxes, channels, *size), in the layout of the maps. samples: 0 is adaptive."""
    from patchword.kernels.roi_align.triton import pool

    output = pool_maps_fake(maps, boxes, levels, strides, size, aligned, samples, channels_last, dtype)
    if not output.numel():
        return output
    maps = [_contiguous(part, channels_last) for part in maps]
    numbers = len(maps), output.shape[2], *size, aligned, samples, channels_last
    with on_device(output):
        grid, tiles = _grid(output.shape[0] * output.shape[1], output.shape[2], size, channels_last)
        tensors = *_five(maps), boxes.float().contiguous(), levels.contiguous(), output
        sizes = boxes.shape[1], 1, *_sides(maps), *_five(strides)
        pool[grid](*tensors, *sizes, *numbers, *tiles, False, **_LAUNCH)
    return output


def pool_maps_fake(
    maps: list[Tensor], boxes: Tensor, levels: Tensor, strides: list[float], size: list[int], aligned: bool,
    samples: int, channels_last: bool, dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    batch, count, channels, (rows, columns) = *boxes.shape[:2], maps[0].shape[1], size
    if channels_last:
        return allocate(maps[0], (batch, count, rows, columns, channels), dtype).permute(0, 1, 4, 2, 3)
    return allocate(maps[0], (batch, count, channels, rows, columns), dtype)


torch.library.register_fake("patchword::roi_align_forward", pool_maps_fake, lib=LIBRARY)


@torch.library.impl(LIBRARY, "roi_align_back", "CompositeExplicitAutograd")
def _scatter(
    gradient: Tensor, maps: list[Tensor], boxes: Tensor, levels: Tensor, strides: list[float], size: list[int],
    aligned: bool, samples: int, channels_last: bool,
) -> list[Tensor]:  # fmt: skip
    """Return the gradient of each map, contiguous in its layout, summed in float32."""
    from patchword.kernels.roi_align.triton import scatter

    sums = [_like(part, channels_last, torch.float32).zero_() for part in maps]
    if gradient.numel() and all(part.numel() for part in maps):
        numbers = len(maps), maps[0].shape[1], *size, aligned, samples, channels_last
        with on_device(gradient):
            grid, tiles = _grid(gradient.shape[0] * gradient.shape[1], gradient.shape[2], size, channels_last)
            gradient = gradient.flatten(0, 1)
            tensors = *_five(sums), boxes.float().contiguous(), levels.contiguous(), gradient
            sizes = boxes.shape[1], 1, *_sides(maps), *_five(strides), *gradient.stride()
            scatter[grid](*tensors, *sizes, *numbers, *tiles, **_LAUNCH)
    return [total.to(part.dtype) for total, part in zip(sums, maps, strict=True)]


def _scatter_fake(
    gradient: Tensor, maps: list[Tensor], boxes: Tensor, levels: Tensor, strides: list[float], size: list[int],
    aligned: bool, samples: int, channels_last: bool,
) -> list[Tensor]:  # fmt: skip
    return [_like(part, channels_last, part.dtype) for part in maps]


torch.library.register_fake("patchword::roi_align_back", _scatter_fake, lib=LIBRARY)


@torch.library.impl(LIBRARY, "roi_align_masks", "CompositeExplicitAutograd")
def pool_masks(masks: Tensor, boxes: Tensor, index: Tensor, size: list[int], aligned: bool, samples: int) -> Tensor:
    """Return (batch, boxes, *size) in float32: each box reads one mask of its image, at stride 1."""
    from patchword.kernels.roi_align.triton import pool

    output = _pool_masks_fake(masks, boxes, index, size, aligned, samples)
    if not output.numel():
        return output
    objects = masks.shape[1]
    masks = masks.contiguous().view(torch.uint8) if masks.dtype == torch.bool else masks.contiguous()
    with on_device(output):
        grid, tiles = _grid(output.shape[0] * output.shape[1], 1, size, False)
        tensors = *_five([masks]), boxes.float().contiguous(), index.contiguous(), output
        sizes = boxes.shape[1], objects, *_sides([masks]), *_five([1.0])
        pool[grid](*tensors, *sizes, 1, 1, *size, aligned, samples, False, *tiles, True, **_LAUNCH)
    return output


def _pool_masks_fake(
    masks: Tensor, boxes: Tensor, index: Tensor, size: list[int], aligned: bool, samples: int
) -> Tensor:
    return allocate(masks, (*boxes.shape[:2], *size), torch.float32)


torch.library.register_fake("patchword::roi_align_masks", _pool_masks_fake, lib=LIBRARY)


def _like(feature_map: Tensor, channels_last: bool, dtype: torch.dtype) -> Tensor:
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty_like(feature_map, dtype=dtype, memory_format=layout)


def _contiguous(feature_map: Tensor, channels_last: bool) -> Tensor:
    return feature_map.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


def _five(values: Sequence[Value]) -> list[Value]:
    """Repeat the first value for the levels that there are not: a kernel takes five maps and does not read these."""
    return [*values, *[values[0]] * (MAX_LEVELS - len(values))]


def _sides(maps: Sequence[Tensor]) -> list[int]:
    """Return height and width of each of five maps."""
    return [side for part in _five(maps) for side in part.shape[-2:]]


def _grid(
    boxes: int, channels: int, size: Sequence[int], channels_last: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the programs, and the bins and channels per program."""
    column_block, channel_block = blocks(size[1], channels, channels_last)
    return (boxes * size[0], -(-channels // channel_block)), (column_block, channel_block)
