"""The losses of heads that read boxes: class, box and mask."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.geometry.objects import Targets, take
from patchword.layers.dense.mask_targets import mask_targets
from patchword.layers.dense.roi_heads import BoxHead, MaskHead
from patchword.layers.dense.selection import Proposals, leading_count
from patchword.objectives.detection.assigners import MaxIouAssigner
from patchword.objectives.detection.dense_loss import BoxLoss, box_losses
from patchword.objectives.detection.losses import Losses
from patchword.objectives.detection.sampler import RandomSampler
from patchword.objectives.detection.shared_loss import ONE_PROCESS, SharedLoss


class BoxSamples(NamedTuple):
    """Boxes that learn, those with an object first.

    boxes: (batch, samples, 4). matched: index of the object of each box; it has no meaning for boxes without one.
    positive: has an object. valid: is a sample. is_object: is the box of an object itself, added to the proposals.
    All but `boxes` are (batch, samples).
    """

    boxes: Tensor
    matched: Tensor
    positive: Tensor
    valid: Tensor
    is_object: Tensor


@dataclass(frozen=True)
class StageLoss:
    """How one box head learns.

    boxes, box_weight: loss of the boxes and its weight. weight: of all losses of this stage.
    mask_aligned, mask_threshold: how masks are cut out at the boxes, see `mask_targets` (mmdet: True, 0.5; torchvision:
        False, None).
    """

    assigner: MaxIouAssigner
    sampler: RandomSampler
    boxes: BoxLoss
    box_weight: float = 1.0
    weight: float = 1.0
    mask_aligned: bool = True
    mask_threshold: float | None = 0.5

    @torch.no_grad()
    def sample(self, boxes: Tensor, valid: Tensor, targets: Targets, shared: SharedLoss = ONE_PROCESS) -> BoxSamples:
        """Assign and sample boxes (batch, boxes, 4), with the boxes of the objects added in front."""
        assigned = self.assigner(boxes, targets.boxes, targets.valid, usable=valid)
        objects = torch.arange(1, targets.boxes.shape[1] + 1, device=boxes.device)
        everything = torch.cat([targets.boxes, boxes], dim=1)
        assigned = torch.cat([torch.where(targets.valid, objects, -1), assigned], dim=1)
        index, taken = self.sampler(assigned, shared.keys)
        assigned = assigned.gather(1, index)
        return BoxSamples(
            take(everything, index),
            (assigned - 1).clamp(min=0),
            taken & (assigned > 0),
            taken,
            index < targets.boxes.shape[1],
        )

    def __call__(
        self,
        head: BoxHead,
        logits: Tensor,
        deltas: Tensor,
        samples: BoxSamples,
        targets: Targets,
        shared: SharedLoss = ONE_PROCESS,
    ) -> Losses:
        """Return the losses "class" and "box"; both are divided by the number of samples of the batch."""
        count = shared.total(samples.valid.sum()).clamp(min=1)
        labels = targets.labels.gather(1, samples.matched)
        classes = torch.where(samples.positive, labels, head.classes)
        per_class = F.cross_entropy(logits.flatten(0, 1), classes.flatten(), reduction="none").view_as(classes)
        own = head.of_class(deltas, labels)
        per_box = box_losses(self.boxes, head.coder, samples.boxes, own, take(targets.boxes, samples.matched))
        return {
            "class": self.weight * (per_class * samples.valid).sum() / count,
            "box": self.weight * self.box_weight * per_box.where(samples.positive, 0.0).sum() / count,
        }

    def mask(
        self,
        head: MaskHead,
        levels: Sequence[Tensor],
        samples: BoxSamples,
        targets: Targets,
        shared: SharedLoss = ONE_PROCESS,
    ) -> Tensor:
        """Return the loss of the masks, the mean over all cells of the boxes that have an object."""
        assert targets.masks is not None, "a mask head learns from masks"
        some = slice(0, min(self.sampler.max_positives, leading_count(samples.positive)))  # those with an object
        boxes, matched, positive = samples.boxes[:, some], samples.matched[:, some], samples.positive[:, some]
        logits = head(levels, boxes, targets.labels.gather(1, matched))
        target = mask_targets(
            targets.masks, boxes, matched, head.size, aligned=self.mask_aligned, threshold=self.mask_threshold
        )
        each = F.binary_cross_entropy_with_logits(logits, target.to(logits.dtype), reduction="none").mean(dim=(-2, -1))
        return self.weight * each.where(positive, 0.0).sum() / shared.total(positive.sum()).clamp(min=1)


@torch.no_grad()
def refined(head: BoxHead, logits: Tensor, deltas: Tensor, samples: BoxSamples, targets: Targets) -> Proposals:
    """Return the boxes for the next stage, without the added objects.

    A box with an object is refined as that object's class, any other as its most probable class.
    """
    labels = targets.labels.gather(1, samples.matched)
    labels = torch.where(samples.positive, labels, logits[..., :-1].argmax(dim=-1))
    boxes = head.coder.decode(samples.boxes, head.of_class(deltas, labels), targets.sizes)
    return Proposals(boxes, torch.zeros_like(boxes[..., 0]), samples.valid & ~samples.is_object)
