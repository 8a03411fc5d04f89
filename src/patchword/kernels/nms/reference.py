"""Non-maximum suppression as a fixed point: the reference of the kernel, and what runs where there is none."""

import torch
from torch import Tensor

from patchword.core.geometry.boxes import pairwise_iou


@torch.no_grad()
def nms_reference(
    boxes: Tensor, scores: Tensor, valid: Tensor, threshold: float, groups: Tensor | None, rounds: int | None
) -> Tensor:
    """Sort by score, find which boxes would suppress which, and repeat keep <- not suppressed by a kept box.

    After r rounds, every box that ends a chain of fewer than r suppressions has its final state. So the only fixed
    point is the result of the greedy algorithm. The matrix of pairs takes boxes^2 bytes per image.
    """
    order = visiting_order(scores, valid)
    boxes = boxes.gather(1, order[..., None].expand(-1, -1, 4))
    valid = valid.gather(1, order)
    suppresses = (pairwise_iou(boxes, boxes) > threshold).triu(1) & valid[:, :, None] & valid[:, None, :]
    if groups is not None:
        groups = groups.gather(1, order)
        suppresses = suppresses & (groups[:, :, None] == groups[:, None, :])
    keep = suppress(valid, suppresses) if rounds is None else _rounds(valid, suppresses, rounds)
    return torch.zeros_like(keep).scatter(1, order, keep)


def visiting_order(scores: Tensor, valid: Tensor) -> Tensor:
    """Return the boxes by falling score, equal scores in the order of the input, padding at the end: (batch, boxes)."""
    return scores.masked_fill(~valid, -torch.inf).sort(dim=1, descending=True, stable=True).indices


def _round(keep: Tensor, valid: Tensor, suppresses: Tensor) -> Tensor:
    return valid & ~(suppresses & keep[:, :, None]).any(dim=1)


def _rounds(valid: Tensor, suppresses: Tensor, rounds: int) -> Tensor:
    keep = valid
    for _ in range(rounds):
        keep = _round(keep, valid, suppresses)
    return keep


def suppress(valid: Tensor, suppresses: Tensor) -> Tensor:
    """Return the fixed point: repeat until nothing changes; inside a compiled graph as a loop of the graph.

    valid: (batch, boxes), best first. suppresses: (batch, boxes, boxes), upper triangle: the first suppresses the
    second if it is kept.
    """
    if torch.compiler.is_compiling():
        return _graph_loop(valid, suppresses)
    before, keep = valid, _round(valid, valid, suppresses)
    while not torch.equal(before, keep):
        before, keep = keep, _round(keep, valid, suppresses)
    return keep


def _graph_loop(valid: Tensor, suppresses: Tensor) -> Tensor:
    from torch._higher_order_ops import while_loop

    def changed(before: Tensor, keep: Tensor) -> Tensor:
        return (before != keep).any()

    def step(before: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        return keep.clone(), _round(keep, valid, suppresses)

    found: tuple[Tensor, Tensor] = while_loop(changed, step, (valid.clone(), _round(valid, valid, suppresses)))
    return found[1]
