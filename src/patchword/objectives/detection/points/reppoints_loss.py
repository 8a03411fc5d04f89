"""The loss of RepPoints v2."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.geometry.boxes import box_iou
from patchword.core.geometry.objects import Targets, take
from patchword.layers.dense.points.reppoints_detector import RepPointsDetector
from patchword.layers.dense.points.reppoints_head import PointsOutput
from patchword.objectives.detection.assigners import AtssAssigner
from patchword.objectives.detection.losses import Losses
from patchword.objectives.detection.objective import DetectionLoss
from patchword.objectives.detection.points.point_losses import (
    gaussian_focal_loss,
    quality_focal_loss,
    semantic_focal_losses,
    widened_giou_loss,
)
from patchword.objectives.detection.points.point_targets import (
    NearestPointAssigner,
    corner_targets,
    gaussian_radius,
    semantic_weights,
)
from patchword.objectives.detection.shared_loss import ONE_PROCESS, SharedLoss

_NEAREST, _ATSS = NearestPointAssigner(), AtssAssigner()


@dataclass(frozen=True)
class RepPointsLoss(DetectionLoss[RepPointsDetector]):
    """How RepPoints v2 learns.

    first: which cell learns which object with its first points. refined: the same for classes and refined points, from
        the boxes of the first points. scale: losses of boxes divide them by `scale` strides.
    corner_iou: IoU at which the heat of a corner ends. beta: exponent of the quality focal loss.
    heat_alpha, heat_gamma: exponents of the loss of the corners. gamma, alpha: of the focal loss of the semantic map.
    *_weight: factors of the losses.
    """

    first: NearestPointAssigner = _NEAREST
    refined: AtssAssigner = _ATSS
    scale: float = 4.0
    corner_iou: float = 0.7
    beta: float = 2.0
    heat_alpha: float = 2.0
    heat_gamma: float = 4.0
    gamma: float = 2.0
    alpha: float = 0.25
    first_weight: float = 1.0
    box_weight: float = 2.0
    corner_weight: float = 0.25
    offset_weight: float = 1.0
    semantic_weight: float = 0.1

    def on_levels(
        self, detector: RepPointsDetector, levels: Sequence[Tensor], targets: Targets, shared: SharedLoss = ONE_PROCESS
    ) -> Losses:
        """Return the losses from the maps of the neck."""
        output = detector.head(levels)
        boxes = self._boxes(detector, output, targets, shared)
        return (
            boxes | self._corners(detector, output, targets, shared) | self._semantic(detector, output, targets, shared)
        )

    def _boxes(self, detector: RepPointsDetector, output: PointsOutput, targets: Targets, shared: SharedLoss) -> Losses:
        """Return the losses of the classes, the first points and the refined points."""
        centers, strides = detector.centers(output)
        first, refined = detector.boxes(output, output.first), detector.boxes(output, output.refined)
        start = self.first(centers, strides, targets.boxes, targets.valid)
        assigned = self._assign(first.detach(), output, targets)
        positive, matched = assigned > 0, (assigned - 1).clamp(min=0)
        count = shared.total(_count(positive))
        target = take(targets.boxes, matched)
        labels = torch.where(positive, targets.labels.gather(1, matched), output.logits.shape[-1])
        quality = box_iou(refined.detach(), target)
        classes = quality_focal_loss(output.logits, labels, quality, beta=self.beta)
        unit = self.scale * strides
        start_target = take(targets.boxes, (start - 1).clamp(min=0))
        of_first = widened_giou_loss(first / unit, start_target / unit) * (start > 0)
        of_refined = widened_giou_loss(refined / unit, target / unit) * positive
        return {
            "class": classes.sum() / count,
            "first_box": self.first_weight * of_first.sum() / shared.total(_count(start > 0)),
            "box": self.box_weight * of_refined.sum() / count,
        }

    def _assign(self, boxes: Tensor, output: PointsOutput, targets: Targets) -> Tensor:
        """Return the object of each cell: (batch, cells). Each image has its own boxes."""
        counts = [height * width for height, width in output.shapes]
        return self.refined(boxes.split(counts, dim=1), targets.boxes, targets.valid)

    def _corners(
        self, detector: RepPointsDetector, output: PointsOutput, targets: Targets, shared: SharedLoss
    ) -> Losses:
        """Return the losses of scores and offsets, the mean over both corners."""
        centers, strides = detector.centers(output)
        counts = [height * width for height, width in output.shapes]
        radius = gaussian_radius(targets.boxes, self.corner_iou)
        scores, offsets = [], []
        for corner in range(2):
            own = slice(2 * corner, 2 * corner + 2)
            found = corner_targets(targets.boxes[..., own], radius, targets.valid, centers, strides, counts)
            count = shared.total(_count(found.positive))
            logits, predicted = output.corner_scores[..., corner], output.corner_offsets[..., own]
            each = gaussian_focal_loss(logits, found.heat, alpha=self.heat_alpha, gamma=self.heat_gamma)
            scores.append(each.sum() / count)
            distance = F.smooth_l1_loss(predicted, found.offsets, beta=1 / 9, reduction="none")
            offsets.append((distance * found.positive[..., None]).sum() / count)
        return {
            "corner": self.corner_weight * torch.stack(scores).mean(),
            "corner_offset": self.offset_weight * torch.stack(offsets).mean(),
        }

    def _semantic(
        self, detector: RepPointsDetector, output: PointsOutput, targets: Targets, shared: SharedLoss
    ) -> Losses:
        """Return the loss of the classes of the cells inside boxes; positives are weighted by 1 / area of the box."""
        logits = output.semantic
        finest = semantic_weights(targets, logits.shape[-1], output.shapes[0], detector.strides[0])
        maps = [F.interpolate(finest, size=shape, mode="nearest") for shape in output.shapes]
        weights = torch.cat([each.flatten(2).transpose(1, 2) for each in maps], dim=1)
        positive = weights > 0
        losses = semantic_focal_losses(logits, positive, gamma=self.gamma, alpha=self.alpha)
        total = shared.total(weights.sum())
        inside = (losses * weights).sum() / torch.where(total > 0, total, 1.0)
        outside = losses.where(~positive, 0.0).sum() / shared.total(positive.sum()).clamp(min=1)
        return {"semantic": self.semantic_weight * (inside + outside)}


def _count(positive: Tensor) -> Tensor:
    """Return the number of positives, at least one per image: (batch, cells) -> a number."""
    return positive.sum(dim=1).clamp(min=1).sum()
