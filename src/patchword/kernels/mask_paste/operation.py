"""Resize the mask of each box to its box, and place it in the image."""

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.kernels.common.availability import SelfTest, TestInputs, is_usable
from patchword.kernels.common.register_op import register_op
from patchword.kernels.mask_paste.reference import (
    paste_binary_masks_reference,
    paste_masks_reference,
    widened_boxes,
)
from patchword.kernels.mask_paste.tuning import BLOCK, WARPS
from patchword.kernels.window_attention.torch_op import allocate, on_device

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def has_paste_binary_masks_kernel(masks: Tensor, boxes: Tensor) -> bool:
    """On a GPU, for one box per mask."""
    if not masks.is_cuda or masks.dtype not in _DTYPES or masks.shape[:-2] != boxes.shape[:-1]:
        return False
    return is_usable(masks, SELF_TEST)


def paste_masks(masks: Tensor, boxes: Tensor, size: tuple[int, int], *, rounded: bool) -> Tensor:
    """Return the mask probability of each pixel: (..., rows, columns), (..., 4) -> (..., *size).

    masks: probabilities inside each box. boxes: in pixels. size: height and width of the image.
    rounded: False samples the mask at the pixel centers, with zeros around it (detectron2, mmdet). True surrounds the
        mask by one row of zeros, widens the box as much, truncates its corners to integers, takes the last pixel as
        part of it, and resizes the mask to these pixels (torchvision).
    """
    return paste_masks_reference(masks, boxes, size, rounded)


def paste_binary_masks(
    masks: Tensor, boxes: Tensor, size: tuple[int, int], threshold: float, *, rounded: bool
) -> Tensor:
    """Return the pixels of each mask as bool: (..., rows, columns), (..., 4) -> (..., *size).

    The same as `paste_masks` and a comparison, without the probabilities of all pixels in memory: at least the
    threshold where `rounded` is False (detectron2, mmdet), above the threshold where it is True (torchvision).
    threshold: above 0 and below 1.
    """
    if not 0 < threshold < 1:
        raise UserError("paste_binary_masks threshold", expected="a number above 0 and below 1", got=threshold)
    if not has_paste_binary_masks_kernel(masks, boxes):
        return paste_binary_masks_reference(masks, boxes, size, threshold, rounded)
    return fused_paste_binary_masks(masks, boxes, size, threshold, rounded)


@torch.no_grad()
def fused_paste_binary_masks(
    masks: Tensor, boxes: Tensor, size: tuple[int, int], threshold: float, rounded: bool
) -> Tensor:
    """Find the final corners of the boxes, then run the kernel."""
    boxes = widened_boxes(boxes, masks.shape[-2:]) if rounded else boxes
    return _run(masks, boxes, list(size), threshold, rounded)


def _launch(masks: Tensor, boxes: Tensor, size: list[int], threshold: float, rounded: bool) -> Tensor:
    from patchword.kernels.mask_paste.triton import paste_binary

    output, (rows, columns) = _empty_output(masks, boxes, size, threshold, rounded), masks.shape[-2:]
    if not output.numel():
        return output
    tensors = masks.contiguous(), boxes.float().contiguous(), output.view(torch.uint8)
    grid = boxes.shape[:-1].numel(), -(-size[0] // BLOCK[0]), -(-size[1] // BLOCK[1])
    with on_device(output):
        numbers = *size, threshold, rows, columns, rounded, *BLOCK
        paste_binary[grid](*tensors, *numbers, num_warps=WARPS, enable_fp_fusion=False)
    return output


def _empty_output(masks: Tensor, boxes: Tensor, size: list[int], threshold: float, rounded: bool) -> Tensor:
    return allocate(masks, (*masks.shape[:-2], *size), torch.bool)


_run = register_op(
    "paste_binary_masks",
    "Tensor masks, Tensor boxes, SymInt[] size, float threshold, bool rounded",
    _launch,
    _empty_output,
)


def matches_reference(device: torch.device) -> bool:
    """True if all pixels agree with the reference, by either rule; at most one in 1,000 may lie on the threshold."""
    masks = TestInputs(device)(3, 7, 6, size=0.5) + 0.5
    boxes = torch.tensor([[1.2, 3.4, 20.7, 30.1], [-5.0, 8.0, 9.0, 12.5], [4.0, 4.0, 4.0, 9.0]], device=device)
    for rounded in (False, True):
        given = masks, boxes, (35, 22), 0.45, rounded
        wrong = fused_paste_binary_masks(*given) != paste_binary_masks_reference(*given)
        if wrong.double().mean() > 1e-3:
            return False
    return True


SELF_TEST = SelfTest("paste_binary_masks", matches_reference)
