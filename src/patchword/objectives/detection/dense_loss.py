"""The losses of dense heads: region proposal networks, RetinaNet and ATSS."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.geometry.boxes import box_centers
from patchword.core.geometry.objects import Targets, take
from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.dense_head import DenseOutput
from patchword.objectives.detection.assigners import AtssAssigner, MaxIouAssigner
from patchword.objectives.detection.losses import Losses, focal_loss, giou_loss
from patchword.objectives.detection.sampler import RandomSampler
from patchword.objectives.detection.shared_loss import ONE_PROCESS, SharedLoss

BoxLoss = Literal["l1", "smooth_l1", "giou"]
SMOOTH = 1 / 9  # below this difference, smooth L1 is quadratic


@dataclass(frozen=True)
class DenseLoss:
    """How anchors learn.

    assigner: which object an anchor learns. sampler: which anchors enter the loss, or None for all that are assigned.
    With a sampler, classes have a binary cross-entropy, and both losses are divided by the number of samples; without
    one, a focal loss, divided by the number of positives. Each image counts at least one positive and one negative.
    boxes: loss of the deltas ("l1", "smooth_l1"), or of the decoded boxes ("giou"). box_weight: its weight.
    border: pixels by which an anchor may cross the border of the image and still learn, or None for no limit.
    """

    assigner: MaxIouAssigner | AtssAssigner
    boxes: BoxLoss
    sampler: RandomSampler | None = None
    box_weight: float = 1.0
    border: float | None = None
    gamma: float = 2.0
    alpha: float = 0.25

    def __call__(
        self,
        output: DenseOutput,
        anchors: Sequence[Tensor],
        coder: BoxCoder,
        targets: Targets,
        shared: SharedLoss = ONE_PROCESS,
    ) -> Losses:
        """Return the losses of a batch: "class", "box", and "centerness" if the head predicts it."""
        assigned = self._assign(anchors, targets)
        boxes = torch.cat(list(anchors)).expand(*assigned.shape, 4)
        logits, deltas, centerness, valid = output.logits, output.deltas, output.centerness, assigned >= 0
        if self.sampler is not None:
            index, valid = self.sampler(assigned, shared.keys)
            assigned, boxes = assigned.gather(1, index), take(boxes, index)
            logits, deltas = take(logits, index), take(deltas, index)
        positive, negative = valid & (assigned > 0), valid & (assigned == 0)
        count = positive.sum(dim=1).clamp(min=1).sum()
        if self.sampler is not None:
            count = count + negative.sum(dim=1).clamp(min=1).sum()
        count = shared.total(count)
        matched = (assigned - 1).clamp(min=0)
        target = take(targets.boxes, matched)
        labels = torch.where(positive, targets.labels.gather(1, matched), logits.shape[-1])
        found = {"class": (self._classes(logits, labels) * valid[..., None]).sum() / count}
        if centerness is None:
            per_box = box_losses(self.boxes, coder, boxes, deltas, target)
            return found | {"box": self.box_weight * (per_box * positive).sum() / count}
        central = centerness_targets(boxes, target).where(positive, 0.0)
        per_box = box_losses(self.boxes, coder, boxes, deltas, target) * central
        per_center = F.binary_cross_entropy_with_logits(centerness, central, reduction="none")
        return found | {
            "box": self.box_weight * (per_box * positive).sum() / _or_one(shared.total(central.sum())),
            "centerness": (per_center * positive).sum() / count,
        }

    def _assign(self, anchors: Sequence[Tensor], targets: Targets) -> Tensor:
        if isinstance(self.assigner, AtssAssigner):
            return self.assigner(anchors, targets.boxes, targets.valid)
        boxes = torch.cat(list(anchors))
        usable = None if self.border is None else _inside(boxes, targets.sizes, self.border)
        return self.assigner(boxes, targets.boxes, targets.valid, usable)

    def _classes(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.sampler is None:
            return focal_loss(logits, labels, gamma=self.gamma, alpha=self.alpha)
        positive = labels[..., None] == torch.arange(logits.shape[-1], device=logits.device)
        return F.binary_cross_entropy_with_logits(logits, positive.to(logits.dtype), reduction="none")


def box_losses(kind: BoxLoss, coder: BoxCoder, boxes: Tensor, deltas: Tensor, target: Tensor) -> Tensor:
    """Return the loss of each box: (..., 4) three times -> (...). Boxes without an object have any finite value."""
    if kind == "giou":
        return giou_loss(coder.decode(boxes, deltas), target)
    target_deltas = coder.encode(boxes, target).nan_to_num(0.0, 0.0, 0.0)  # padding has no size
    if kind == "l1":
        return (deltas - target_deltas).abs().sum(dim=-1)
    return F.smooth_l1_loss(deltas, target_deltas, beta=SMOOTH, reduction="none").sum(dim=-1)


def centerness_targets(boxes: Tensor, target: Tensor) -> Tensor:
    """Return how central the center of each box is in its object, in [0, 1]: (..., 4), (..., 4) -> (...).

    sqrt(min(l, r) / max(l, r) * min(t, b) / max(t, b)), with the distances to the four sides (Tian et al., 2019).
    """
    center = box_centers(boxes)
    low, high = center - target[..., :2], target[..., 2:] - center
    share = torch.minimum(low, high) / torch.maximum(low, high).clamp(min=1e-12)
    return share.clamp(min=0).prod(dim=-1).sqrt()


def _inside(boxes: Tensor, sizes: Tensor, border: float) -> Tensor:
    """True where a box stays in the image: (boxes, 4), (batch, 2) -> (batch, boxes)."""
    height, width = sizes[:, :1], sizes[:, 1:]
    fits = (boxes[:, :2] >= -border).all(dim=-1)
    return fits & (boxes[:, 2] < width + border) & (boxes[:, 3] < height + border)


def _or_one(total: Tensor) -> Tensor:
    """The divisor, or 1 if there is nothing to divide."""
    return torch.where(total > torch.finfo(total.dtype).eps, total, 1.0)
