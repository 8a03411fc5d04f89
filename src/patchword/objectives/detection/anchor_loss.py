"""The loss of a detector with anchors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import torch
from torch import Tensor

from patchword.core.geometry.objects import Targets
from patchword.layers.dense.anchor_detector import AnchorDetector
from patchword.layers.dense.roi_heads import BoxHead, MaskHead
from patchword.layers.dense.selection import Proposals
from patchword.objectives.detection.dense_loss import DenseLoss
from patchword.objectives.detection.losses import Losses
from patchword.objectives.detection.objective import DetectionLoss
from patchword.objectives.detection.shared_loss import ONE_PROCESS, SharedLoss
from patchword.objectives.detection.stage_loss import StageLoss, refined


@dataclass(frozen=True)
class AnchorLoss(DetectionLoss[AnchorDetector]):
    """How a detector with anchors learns.

    proposer: losses of the dense head. stages: losses of each box head, and of its mask head if there is one.
    """

    proposer: DenseLoss
    stages: tuple[StageLoss, ...] = ()

    def on_levels(
        self, detector: AnchorDetector, levels: Sequence[Tensor], targets: Targets, shared: SharedLoss = ONE_PROCESS
    ) -> Losses:
        """Return the losses from the maps of the neck."""
        proposer = detector.proposer
        output, anchors = proposer(levels), proposer.boxes(levels)
        if not self.stages:
            return self.proposer(output, anchors, proposer.coder, targets, shared)
        one_class = replace(targets, labels=torch.zeros_like(targets.labels))
        found = self.proposer(output, anchors, proposer.coder, one_class, shared)
        with torch.no_grad():
            proposals = proposer.propose(output, anchors, targets.sizes)
        return _named("proposal", found) | self._stages(detector, levels, proposals, targets, shared)

    def configured(self, config: Mapping[str, Any]) -> Self:
        """Set roi_samples. Files that were written before this field existed do not have it; their number is 512."""
        count = config.get("roi_samples")
        if count is None:
            return self
        stages = (replace(stage, sampler=replace(stage.sampler, count=count)) for stage in self.stages)
        return replace(self, stages=tuple(stages))

    def _stages(
        self,
        detector: AnchorDetector,
        levels: Sequence[Tensor],
        proposals: Proposals,
        targets: Targets,
        shared: SharedLoss,
    ) -> Losses:
        found: Losses = {}
        heads = cast(Sequence[BoxHead], detector.stages)
        for number, (rule, head) in enumerate(zip(self.stages, heads, strict=True)):
            samples = rule.sample(proposals.boxes, proposals.valid, targets, shared)
            logits, deltas = head(levels, samples.boxes)
            losses = rule(head, logits, deltas, samples, targets, shared)
            if detector.masks:
                losses["mask"] = rule.mask(cast(MaskHead, detector.masks[number]), levels, samples, targets, shared)
            found |= _named(f"stage_{number + 1}", losses) if len(heads) > 1 else losses
            if number < len(heads) - 1:
                proposals = refined(head, logits, deltas, samples, targets)
        return found


def _named(prefix: str, losses: Losses) -> Losses:
    return {f"{prefix}_{name}": loss for name, loss in losses.items()}
