"""The loss of DETR (Carion et al., 2020): each object is matched with one query, and each query learns its object."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.geometry.objects import Targets
from patchword.layers.dense.queries.box_forms import to_centers, to_corners, to_pixels, to_relative
from patchword.layers.dense.queries.detr import Detr, QueryOutput
from patchword.objectives.detection.losses import Losses, giou_loss
from patchword.objectives.detection.objective import DetectionLoss
from patchword.objectives.detection.queries.matching import giou_cost, l1_cost, mark_nonfinite, match, softmax_cost
from patchword.objectives.detection.shared_loss import ONE_PROCESS, SharedLoss


@dataclass(frozen=True)
class DetrLoss(DetectionLoss[Detr]):
    """How a DETR learns: cross-entropy of the classes, L1 of relative boxes, GIoU, in each decoder layer.

    class_weight, box_weight, giou_weight: of the losses, and of the costs of the matching.
    none_weight: of queries without an object in the cross-entropy, which is a weighted mean.
    auxiliary: all decoder layers learn, not only the last one.
    """

    class_weight: float = 1.0
    box_weight: float = 5.0
    giou_weight: float = 2.0
    none_weight: float = 0.1
    auxiliary: bool = True

    def on_levels(
        self, detector: Detr, levels: Sequence[Tensor], targets: Targets, shared: SharedLoss = ONE_PROCESS
    ) -> Losses:
        """Return "class", "box" and "giou" of the last layer, and "layer_1_class", ... of the layers before it."""
        decoded = detector.decode(levels, targets.sizes)
        return self.on_outputs(detector.predict(decoded if self.auxiliary else decoded[-1:]), targets, shared)

    def on_outputs(self, output: QueryOutput, targets: Targets, shared: SharedLoss = ONE_PROCESS) -> Losses:
        """Return the losses of predictions."""
        costs = self.costs(output, targets)
        queries = match(costs, targets.valid)
        classes = mark_nonfinite(self._classes(output.logits, queries, targets, shared), costs)
        boxes, overlaps = self._boxes(output.boxes, queries, targets, shared)
        parts = {
            "class": self.class_weight * classes,
            "box": self.box_weight * boxes,
            "giou": self.giou_weight * overlaps,
        }
        last = len(costs) - 1
        return {
            name if layer == last else f"layer_{layer + 1}_{name}": losses[layer]
            for layer in range(last, -1, -1)
            for name, losses in parts.items()
        }

    def configured(self, config: Mapping[str, Any]) -> Self:
        """Set `auxiliary`."""
        return replace(self, auxiliary=config.get("auxiliary", True))

    @torch.no_grad()
    def costs(self, output: QueryOutput, targets: Targets) -> Tensor:
        """Return the cost of each pair: (layers, batch, queries, objects)."""
        sizes, boxes = targets.sizes, output.boxes.detach()
        relative = to_centers(to_relative(targets.boxes, sizes))
        return (
            self.class_weight * softmax_cost(output.logits.detach(), targets.labels)
            + self.box_weight * l1_cost(boxes, relative)
            + self.giou_weight * giou_cost(to_pixels(to_corners(boxes), sizes), targets.boxes)
        )

    def _classes(self, logits: Tensor, queries: Tensor, targets: Targets, shared: SharedLoss) -> Tensor:
        """Return the cross-entropy of each layer: (layers,)."""
        none = logits.shape[-1] - 1
        labels = torch.full((*logits.shape[:2], logits.shape[2] + 1), none, device=logits.device)
        index = torch.where(queries >= 0, queries, logits.shape[2])  # objects without a query: the extra column
        labels = labels.scatter(2, index, targets.labels.expand_as(index))[..., :-1]
        weights = torch.where(labels == none, self.none_weight, 1.0).to(logits.dtype)
        losses = F.cross_entropy(logits.movedim(-1, 1), labels, reduction="none") * weights
        return losses.sum(dim=(1, 2)) / shared.total(weights[0].sum())  # the same sum in all layers

    def _boxes(self, boxes: Tensor, queries: Tensor, targets: Targets, shared: SharedLoss) -> tuple[Tensor, Tensor]:
        """Return L1 and 1 - GIoU of each layer, divided by the number of objects: (layers,) each."""
        index = queries.clamp(min=0)[..., None].expand(*queries.shape, 4)
        found, matched = boxes.gather(2, index), queries >= 0
        distance = (found - to_centers(to_relative(targets.boxes, targets.sizes))).abs().sum(dim=-1)
        overlap = giou_loss(to_pixels(to_corners(found), targets.sizes), targets.boxes)
        count = shared.total(targets.valid.sum()).clamp(min=1)
        return (distance * matched).sum(dim=(1, 2)) / count, (overlap * matched).sum(dim=(1, 2)) / count
