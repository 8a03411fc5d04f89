"""Assigners: which object each anchor or proposal learns.

The result is (batch, boxes): -1 for a box that is ignored, 0 for one without an object, k for object k - 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from patchword.core.geometry.boxes import box_centers, pairwise_iou


@dataclass(frozen=True)
class MaxIouAssigner:
    """Gives each box the object of largest IoU, if that is large enough.

    positive_iou: least IoU of a match. negative_iou: below it, a box has no object; between the two, it is ignored.
    low_quality: whether the boxes of largest IoU with an object (all ties) match too, however small that IoU is.
        "object": they learn that object, the last of several (mmdet). "best": they learn their own object of largest
        IoU (torchvision, detectron2). "none": they are not matched.
    min_low_quality_iou: least IoU of such a match.
    """

    positive_iou: float
    negative_iou: float
    low_quality: Literal["none", "object", "best"]
    min_low_quality_iou: float = 0.0

    @torch.no_grad()
    def __call__(self, boxes: Tensor, objects: Tensor, valid: Tensor, usable: Tensor | None = None) -> Tensor:
        """Assign objects to boxes.

        boxes: (batch, boxes, 4) or (boxes, 4). objects: (batch, objects, 4).
        valid: (batch, objects), False for padding.
        usable: (batch, boxes), False for boxes that are ignored, such as anchors that cross the border.
        """
        if not objects.shape[1]:
            none = boxes.new_zeros((objects.shape[0], boxes.shape[-2]), dtype=torch.long)
            return none if usable is None else none.masked_fill(~usable, -1)
        iou = pairwise_iou(objects, boxes).masked_fill(~valid[..., None], -1)
        if usable is not None:
            iou = iou.masked_fill(~usable[:, None], -1)
        largest, best = iou.max(dim=1)
        assigned = torch.where(largest >= self.positive_iou, best + 1, torch.where(largest < self.negative_iou, 0, -1))
        if self.low_quality != "none":
            assigned = self._with_low_quality(assigned, iou, best)
        return assigned if usable is None else assigned.masked_fill(~usable, -1)

    def _with_low_quality(self, assigned: Tensor, iou: Tensor, best: Tensor) -> Tensor:
        """Match the boxes of largest IoU with an object. iou: (batch, objects, boxes), -1 for padding."""
        peak = iou.amax(dim=2, keepdim=True)
        matches = (iou == peak) & (peak >= max(self.min_low_quality_iou, 0.0))
        if self.low_quality == "best":
            return torch.where(matches.any(dim=1), best + 1, assigned)
        number = torch.arange(1, iou.shape[1] + 1, device=iou.device)[:, None]
        last = (matches * number).amax(dim=1)
        return torch.where(last > 0, last, assigned)


@dataclass(frozen=True)
class AtssAssigner:
    """Adaptive training sample selection (Zhang et al., 2020).

    Candidates of an object are the `nearest` anchors of each level. Those whose IoU is at least the mean plus the
    standard deviation of all candidates, and whose center is inside the object by more than `margin` pixels, match it.
    An anchor that matches several objects takes the one of largest IoU.
    """

    nearest: int = 9
    margin: float = 0.01

    @torch.no_grad()
    def __call__(self, anchors: Sequence[Tensor], objects: Tensor, valid: Tensor) -> Tensor:
        """Assign objects to anchors.

        anchors: (anchors, 4) or (batch, anchors, 4) per level. objects: (batch, objects, 4).
        valid: (batch, objects), False for padding.
        Result: (batch, anchors of all levels), never -1.
        """
        boxes = torch.cat(list(anchors), dim=-2)
        if not objects.shape[1]:
            return boxes.new_zeros((objects.shape[0], boxes.shape[-2]), dtype=torch.long)
        iou = pairwise_iou(objects, boxes)
        candidates = self._candidates(anchors, objects)
        of_candidates = iou.gather(2, candidates)
        threshold = of_candidates.mean(dim=2, keepdim=True) + of_candidates.std(dim=2, keepdim=True)
        near = torch.zeros_like(iou, dtype=torch.bool).scatter(2, candidates, True)
        matches = near & (iou >= threshold) & self._inside(boxes, objects) & valid[..., None]
        largest, best = iou.masked_fill(~matches, -1).max(dim=1)
        return torch.where(largest >= 0, best + 1, 0)

    def _candidates(self, anchors: Sequence[Tensor], objects: Tensor) -> Tensor:
        """The nearest anchors of each level: (batch, objects, candidates), as indices into all levels."""
        found, start = [], 0
        for level in anchors:
            offset = box_centers(objects)[:, :, None] - box_centers(level)[..., None, :, :]
            distance = offset.square().sum(dim=-1).sqrt()
            nearest = distance.topk(min(self.nearest, level.shape[-2]), dim=2, largest=False).indices
            found.append(nearest + start)
            start += level.shape[-2]
        return torch.cat(found, dim=2)

    def _inside(self, boxes: Tensor, objects: Tensor) -> Tensor:
        centers = box_centers(boxes)[..., None, :, :]
        low, high = centers - objects[:, :, None, :2], objects[:, :, None, 2:] - centers
        return torch.cat([low, high], dim=-1).amin(dim=-1) > self.margin
