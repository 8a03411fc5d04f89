"""The objective of segmentation: the sum of the losses of a segmenter."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from patchword.data.segmentation.batches import LabelBatch
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.objectives.segmentation.loss import SegmentationLoss


class SegmentationOutcome(NamedTuple):
    """loss: to minimize. right: not a number, since training measures no accuracy."""

    loss: Tensor
    right: Tensor


@dataclass(frozen=True)
class SegmentationObjective:
    """Computes the loss of a batch. It is divided by the number of pixels of all micro-batches and processes."""

    segmenter: Segmenter
    rule: SegmentationLoss

    def __call__(self, piece: LabelBatch, batch: Any) -> SegmentationOutcome:
        """piece: a micro-batch, or the whole batch of this process."""
        own = getattr(batch, "own", batch)  # of a batch that processes share

        def count_all(count: Tensor) -> Tensor:
            labels = own.labels
            pixels = (labels != self.rule.ignored).sum() if self.rule.mean == "labelled" else labels.numel()
            return piece.group.total(torch.as_tensor(pixels, dtype=count.dtype, device=count.device))

        losses = self.rule(self.segmenter, piece.images, piece.labels, count_all)
        loss = torch.stack(list(losses.values())).sum()
        return SegmentationOutcome(loss, torch.full((), torch.nan, device=piece.device))
