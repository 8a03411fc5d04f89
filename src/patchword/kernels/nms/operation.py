"""Non-maximum suppression with fixed shapes: a mask goes in and a mask comes out."""

import torch
from torch import Tensor

from patchword.core.tracing import may_depend_on_values
from patchword.kernels.common.availability import SelfTest, TestInputs, is_usable
from patchword.kernels.common.register_op import register_op
from patchword.kernels.nms.blocks import nms_in_blocks
from patchword.kernels.nms.reference import nms_reference, visiting_order
from patchword.kernels.nms.tuning import MAX_BOXES, PAIR_WARPS, sweep_blocks
from patchword.kernels.window_attention.torch_op import allocate, on_device


def has_nms_kernel(boxes: Tensor) -> bool:
    """On a GPU, for boxes in float32."""
    if not boxes.is_cuda or boxes.dtype != torch.float32 or boxes.shape[1] > MAX_BOXES:
        return False
    return is_usable(boxes, SELF_TEST)


def nms(
    boxes: Tensor,
    scores: Tensor,
    valid: Tensor,
    threshold: float,
    groups: Tensor | None = None,
    rounds: int | None = None,
) -> Tensor:
    """Return which boxes greedy non-maximum suppression keeps: (batch, boxes) of bool, in the order of the input.

    Boxes are visited by falling score, equal scores in the order of the input. A box is dropped if its IoU with a kept
    box of the same group is above the threshold.

    boxes: (batch, boxes, 4). scores: (batch, boxes). valid: (batch, boxes), False for padding, which is never kept.
    groups: (batch, boxes) of integers, such as classes or levels; boxes of two groups do not suppress each other.
    rounds: for the reference only; the kernel is exact and never waits. None repeats until nothing changes, which waits
        for the device once per round outside a compiled graph. A number of rounds never waits; the result is then exact
        where no chain of suppressions is longer.
    """
    if rounds is None and may_depend_on_values(boxes):
        return nms_in_blocks(boxes, scores, valid, threshold, groups)
    if not has_nms_kernel(boxes):
        return nms_reference(boxes, scores, valid, threshold, groups, rounds)
    return fused_nms(boxes, scores, valid, threshold, groups)


@torch.no_grad()
def fused_nms(boxes: Tensor, scores: Tensor, valid: Tensor, threshold: float, groups: Tensor | None) -> Tensor:
    """Sort by score, then run the kernels."""
    return _run(boxes, valid, visiting_order(scores, valid), groups, threshold)


def _launch(boxes: Tensor, valid: Tensor, order: Tensor, groups: Tensor | None, threshold: float) -> Tensor:
    from patchword.kernels.nms.triton import overlap_bits, sweep

    keep, (images, count) = _empty_output(boxes, valid, order, groups, threshold), valid.shape
    if not keep.numel():
        return keep
    words = -(-count // 64)
    word_block, row_block, warps = sweep_blocks(words)
    boxes, order, flags = boxes.contiguous(), order.contiguous(), valid.contiguous().view(torch.uint8)
    own = order if groups is None else groups.contiguous()
    with on_device(keep):
        bits = allocate(order, (images, count, words), torch.int64)
        pairs = boxes, flags, own, order, bits, count, words, threshold, groups is not None
        overlap_bits[words, words, images](*pairs, num_warps=PAIR_WARPS, enable_fp_fusion=False)
        sweep[images,](bits, flags, order, keep.view(torch.uint8), count, words, word_block, row_block, num_warps=warps)
    return keep


def _empty_output(boxes: Tensor, valid: Tensor, order: Tensor, groups: Tensor | None, threshold: float) -> Tensor:
    return allocate(boxes, valid.shape, torch.bool)


_run = register_op(
    "nms", "Tensor boxes, Tensor valid, Tensor order, Tensor? groups, float threshold", _launch, _empty_output
)


def matches_reference(device: torch.device) -> bool:
    """True if exactly the same boxes are kept, of two words per image, with and without groups."""
    wave = TestInputs(device)
    corner, scores = (wave(2, 70, 2, size=12.0, by=3.0)).round(), (wave(2, 70, size=9.0)).round()
    boxes, valid = torch.cat([corner, corner + 10], dim=-1), wave(2, 70, by=2.0) > -0.9
    for threshold, groups in ((0.3, None), (0.5, scores.long() % 3)):
        given = boxes, scores, valid, threshold, groups
        if not torch.equal(fused_nms(*given), nms_reference(*given, None)):
            return False
    return True


SELF_TEST = SelfTest("nms", matches_reference)
