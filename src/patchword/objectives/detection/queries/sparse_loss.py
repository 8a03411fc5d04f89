"""The loss of Sparse R-CNN (Sun et al., 2021): in each head, one query learns each object."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.core.geometry.objects import Targets
from patchword.layers.dense.queries.box_forms import to_relative
from patchword.layers.dense.queries.sparse_detector import SparseDetector
from patchword.objectives.detection.losses import Losses, focal_loss, giou_loss
from patchword.objectives.detection.objective import DetectionLoss
from patchword.objectives.detection.queries.matching import focal_cost, giou_cost, l1_cost, mark_nonfinite, match
from patchword.objectives.detection.shared_loss import ONE_PROCESS, SharedLoss


@dataclass(frozen=True)
class SparseLoss(DetectionLoss[SparseDetector]):
    """How a Sparse R-CNN learns: focal loss of the classes, L1 of relative corners and GIoU, in each head.

    class_weight, box_weight, giou_weight: of the losses, and of the costs of the matching.
    gamma, alpha: of the focal loss.
    """

    class_weight: float = 2.0
    box_weight: float = 5.0
    giou_weight: float = 2.0
    gamma: float = 2.0
    alpha: float = 0.25

    def on_levels(
        self, detector: SparseDetector, levels: Sequence[Tensor], targets: Targets, shared: SharedLoss = ONE_PROCESS
    ) -> Losses:
        """Return "class", "box" and "giou" of the last head, and "head_1_class", ... of the heads before it."""
        outputs = detector.refine(levels, targets.sizes)
        logits, boxes = (torch.stack(parts) for parts in list(zip(*outputs, strict=True))[:2])
        costs = self.costs(logits, boxes, targets)
        queries = match(costs, targets.valid)
        count = shared.total((queries[0] >= 0).sum()).clamp(min=1)
        found, matched = boxes.gather(2, queries.clamp(min=0)[..., None].expand(*queries.shape, 4)), queries >= 0
        distance = (to_relative(found, targets.sizes) - to_relative(targets.boxes, targets.sizes)).abs().sum(dim=-1)
        parts = {
            "class": self.class_weight * mark_nonfinite(self._classes(logits, queries, targets) / count, costs),
            "box": self.box_weight * (distance * matched).sum(dim=(1, 2)) / count,
            "giou": self.giou_weight * (giou_loss(found, targets.boxes) * matched).sum(dim=(1, 2)) / count,
        }
        last = len(outputs) - 1
        return {
            name if head == last else f"head_{head + 1}_{name}": losses[head]
            for head in range(last, -1, -1)
            for name, losses in parts.items()
        }

    @torch.no_grad()
    def costs(self, logits: Tensor, boxes: Tensor, targets: Targets) -> Tensor:
        """Return the cost of each pair: (heads, batch, queries, objects)."""
        relative, target = (to_relative(each, targets.sizes) for each in (boxes, targets.boxes))
        return (
            self.class_weight * focal_cost(logits, targets.labels, self.gamma, self.alpha)
            + self.box_weight * l1_cost(relative, target)
            + self.giou_weight * giou_cost(boxes, targets.boxes)
        )

    def _classes(self, logits: Tensor, queries: Tensor, targets: Targets) -> Tensor:
        """Return the sum of the focal losses of each head: (heads,). Queries without an object learn no class."""
        none, count = logits.shape[-1], logits.shape[2]
        labels = torch.full((*logits.shape[:2], count + 1), none, device=logits.device)
        index = torch.where(queries >= 0, queries, count)  # objects without a query: the extra column
        labels = labels.scatter(2, index, targets.labels.expand_as(index))[..., :-1]
        return focal_loss(logits, labels, gamma=self.gamma, alpha=self.alpha).sum(dim=(1, 2, 3))
