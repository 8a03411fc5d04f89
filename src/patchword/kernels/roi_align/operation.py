"""RoIAlign over a pyramid of maps in one call, with fixed shapes."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.geometry.boxes import box_areas
from patchword.kernels.common.availability import SelfTest, TestInputs, is_usable, needs_grad
from patchword.kernels.roi_align.adaptive import roi_align_adaptive
from patchword.kernels.roi_align.autograd import roi_align_kernel
from patchword.kernels.roi_align.gather import can_gather, roi_align_gather
from patchword.kernels.roi_align.reference import Rule, roi_align_masks_reference, roi_align_reference
from patchword.kernels.roi_align.torch_op import roi_align_masks_forward
from patchword.kernels.roi_align.tuning import MAX_LEVELS

Samples = int | Literal["adaptive"]
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_MASK_DTYPES = (*_DTYPES, torch.bool, torch.uint8)
_ADDRESSABLE = 2**31  # elements of one image of a map: offsets within it have 32 bits


def has_roi_align_kernel(maps: Sequence[Tensor]) -> bool:
    """On a GPU, for up to five maps of one dtype with 16 or 32 bits.

    The gradient adds with atomic operations, in an order that differs from run to run: where torch is asked for
    deterministic algorithms, the reference computes it.
    """
    first = maps[0]
    if not first.is_cuda or first.dtype not in _DTYPES or len(maps) > MAX_LEVELS:
        return False
    if any(part.dtype != first.dtype or part.shape[1] * part.shape[2] * part.shape[3] >= _ADDRESSABLE for part in maps):
        return False
    if torch.are_deterministic_algorithms_enabled() and needs_grad(*maps):
        return False
    return is_usable(first, SELF_TEST)


def has_roi_align_masks_kernel(masks: Tensor) -> bool:
    """On a GPU, where the masks need no gradient."""
    if not masks.is_cuda or masks.dtype not in _MASK_DTYPES or needs_grad(masks):
        return False
    return is_usable(masks, SELF_TEST)


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
    Result: (batch, boxes, channels, *size), where a kernel runs in the memory format of the maps. Gradients flow to the
    maps, not to the boxes.
    """
    _check_samples(samples)
    if len(maps) != len(strides):
        raise UserError("roi_align", expected=f"one stride per map, {len(maps)}", got=len(strides))
    count = _count(samples)
    if can_gather(maps):
        run = roi_align_adaptive if count is None else roi_align_gather
    else:
        run = fused_roi_align if has_roi_align_kernel(maps) else roi_align_reference
    return run(maps, boxes, levels, strides, size, aligned, count)


def roi_align_masks(
    masks: Tensor, boxes: Tensor, index: Tensor, size: tuple[int, int], *, aligned: bool, samples: Samples
) -> Tensor:
    """Return RoIAlign of one mask per box.

    masks: (batch, objects, height, width) at the size of the image. boxes: (batch, boxes, 4) in pixels.
    index: (batch, boxes), the mask that each box reads. Result: (batch, boxes, *size) in float32.
    """
    _check_samples(samples)
    if not has_roi_align_masks_kernel(masks):
        return roi_align_masks_reference(masks, boxes, index, size, aligned, _count(samples))
    found: Tensor = roi_align_masks_forward(masks, boxes, index, list(size), aligned, _count(samples) or 0)
    return found


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


def fused_roi_align(maps: Sequence[Tensor], boxes: Tensor, levels: Tensor, *rule: *Rule) -> Tensor:
    """Run the kernel. Like the matrix products of the reference, it writes autocast's dtype under autocast."""
    strides, size, aligned, samples = rule
    first, device = maps[0], maps[0].device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else first.dtype
    channels_last = first.is_contiguous(memory_format=torch.channels_last) and not first.is_contiguous()
    numbers = [float(stride) for stride in strides], list(size), aligned, samples or 0, channels_last, dtype
    found: Tensor = roi_align_kernel(list(maps), boxes, levels, *numbers)
    return found


def matches_reference(device: torch.device) -> bool:
    """True if features, gradients and mask targets agree with the reference, in both layouts."""
    wave = TestInputs(device)
    maps = [wave(2, 20, 8, 9).contiguous(memory_format=torch.channels_last), wave(2, 20, 4, 5)]
    centers, sides = wave(2, 3, 2, size=16.0, by=3.0) + 16, wave(2, 3, 2, size=8.0) + 12
    boxes = torch.cat([centers - sides, centers + sides], dim=-1)
    levels = torch.arange(6, device=device).view(2, 3) % 3 - 1
    mask_rule = wave(2, 2, 9, 8) > 0, boxes / 4, levels.clamp(min=0), (3, 2)
    for samples, given in ((2, maps), (None, maps[::-1])):
        found = [roi_align_masks_forward(*mask_rule, True, samples or 0)]
        expected = [roi_align_masks_reference(*mask_rule, True, samples)]
        rule = (boxes, levels, [4.0, 8.0], (2, 3), True, samples)
        for run, leaves, results in (
            (fused_roi_align, [part.clone().requires_grad_() for part in given], found),
            (roi_align_reference, [part.double().requires_grad_() for part in given], expected),
        ):
            output = run(leaves, *rule)
            results.extend((output, *torch.autograd.grad(output.sin().sum(), leaves)))
        if not all(_is_close(*pair) for pair in zip(found, expected, strict=True)):
            return False
    return True


def _is_close(found: Tensor, expected: Tensor) -> bool:
    return bool((found.double() - expected).norm() <= 1e-4 * expected.norm())


SELF_TEST = SelfTest("roi_align", matches_reference)
