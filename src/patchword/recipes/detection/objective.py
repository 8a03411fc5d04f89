"""The objective of detection: the sum of the losses of a detector."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from patchword.data.detection.batches import ObjectBatch
from patchword.layers.dense.detector import Detector
from patchword.objectives.detection.objective import DetectionLoss
from patchword.objectives.detection.shared_loss import SharedLoss


class DetectionOutcome(NamedTuple):
    """loss: to minimize. right: not a number, since a detector has no accuracy."""

    loss: Tensor
    right: Tensor


@dataclass(frozen=True)
class DetectionObjective:
    """Computes the loss of a batch. Counts that losses are divided by are those of all processes."""

    detector: Detector
    rule: DetectionLoss[Any]

    def __call__(self, piece: ObjectBatch, batch: Any) -> DetectionOutcome:
        """piece: a micro-batch, or the whole batch of this process. Micro-batches count by their number of images."""
        shared = SharedLoss(piece.keys(), piece.group.total)
        losses = self.rule(self.detector, piece.images, piece.targets, shared)
        loss = torch.stack(list(losses.values())).sum() * share_of(piece, batch)
        return DetectionOutcome(loss, torch.full((), torch.nan, device=piece.device))


def share_of(piece: ObjectBatch, batch: Any) -> float:
    """Return the number of images of a micro-batch, divided by that of this process's part of the batch."""
    own = getattr(batch, "own", batch)  # of a batch that processes share
    return float(piece.weight / own.weight)
