"""Non-maximum suppression with fixed shapes: a mask goes in and a mask comes out."""

from torch import Tensor

from patchword.kernels.nms.reference import nms_reference


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
    rounds: None repeats until nothing changes, which waits for the device once per round outside a compiled graph. A
        number of rounds never waits; the result is then exact where no chain of suppressions is longer.
    """
    return nms_reference(boxes, scores, valid, threshold, groups, rounds)
