"""Detectors with anchors: backbone, neck, a proposer over all cells, and heads that read the proposed boxes."""

from collections.abc import Sequence
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.geometry.objects import Detections
from patchword.core.grid import Size
from patchword.layers.dense.anchors import Anchors
from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.dense_head import DenseHead, DenseOutput
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.fpn import Fpn
from patchword.layers.dense.roi_heads import BoxHead, MaskHead
from patchword.layers.dense.selection import (
    Proposals,
    Selection,
    leading_count,
    select_detections,
    select_from_anchors,
    select_proposals,
)


class Proposer(nn.Module):
    """A dense head with its anchors: a region proposal network, or a whole one-stage detector.

    strides: image pixels per cell of each level. training_rule: the selection during training, if it is another one.
    fitted_strides: anchors of a level lie image size // cells apart, rounded down (torchvision), not one stride. This
        differs where a level has an odd number of cells, whose last cell covers half a stride in the next level.
    """

    def __init__(
        self,
        head: DenseHead,
        anchors: Anchors,
        coder: BoxCoder,
        strides: Sequence[int],
        rule: Selection,
        training_rule: Selection | None = None,
        fitted_strides: bool = False,
    ) -> None:
        super().__init__()
        self.fitted_strides = fitted_strides
        self.head, self.anchors, self.coder, self.strides = head, anchors, coder, tuple(strides)
        self.rule, self.training_rule = rule, training_rule or rule

    def forward(self, levels: Sequence[Tensor]) -> DenseOutput:
        """Return the predictions at all anchors."""
        return self.head(levels)

    def boxes(self, levels: Sequence[Tensor]) -> list[Tensor]:
        """Return the anchors of each level: (anchors, 4)."""
        shapes = [(level.shape[-2], level.shape[-1]) for level in levels]
        strides: Sequence[Size] = self.strides
        if self.fitted_strides:
            height, width = (side * self.strides[0] for side in shapes[0])
            strides = [(height // rows, width // columns) for rows, columns in shapes]
        return self.anchors.boxes(shapes, strides, levels[0].device)

    def propose(self, output: DenseOutput, anchors: Sequence[Tensor], sizes: Tensor) -> Proposals:
        """Return the boxes that the next heads read."""
        rule = self.training_rule if self.training else self.rule
        return select_proposals(output, anchors, self.coder, sizes, rule)


class AnchorDetector(Detector):
    """Detects objects at anchors: Faster, Mask and Cascade R-CNN, RetinaNet and ATSS.

    stages: heads that classify and refine the proposals one after the other; none in a one-stage detector.
    masks: mask heads, whose probabilities are averaged. rule: the selection of the detections.
    average: what the mean of several stages is taken of: their logits (mmdet) or their probabilities (detectron2).
    """

    def __init__(
        self,
        backbone: nn.Module,
        neck: Fpn,
        proposer: Proposer,
        stages: Sequence[BoxHead] = (),
        masks: Sequence[MaskHead] = (),
        rule: Selection | None = None,
        average: Literal["logits", "probabilities"] = "logits",
    ) -> None:
        super().__init__()
        self.backbone, self.neck, self.proposer, self.average = backbone, neck, proposer, average
        self.stages, self.masks = nn.ModuleList(stages), nn.ModuleList(masks)
        self.rule = rule or proposer.rule

    def features(self, images: Tensor) -> list[Tensor]:
        """Return the maps of the neck. It reads the coarsest maps of the backbone, as many as it has laterals."""
        maps = self.backbone(images)
        return cast(list[Tensor], self.neck(maps[len(maps) - len(self.neck.lateral) :]))

    def detect(self, levels: Sequence[Tensor], sizes: Tensor) -> Detections:
        """Detect objects on the maps of the neck."""
        output, anchors = self.proposer(levels), self.proposer.boxes(levels)
        if not self.stages:
            return select_from_anchors(output, anchors, self.proposer.coder, sizes, self.rule)
        found = self.refine(levels, self.proposer.propose(output, anchors, sizes), sizes)
        if not self.masks:
            return found
        used = leading_count(found.valid)
        boxes, labels = found.boxes[:, :used], found.labels[:, :used]
        masks = [torch.sigmoid(head(levels, boxes, labels)) for head in self.masks]
        mean = torch.stack(masks).mean(dim=0)
        if used < found.valid.shape[1]:
            mean = F.pad(mean, (0, 0, 0, 0, 0, found.valid.shape[1] - used))
        return Detections(found.boxes, found.labels, found.valid, sizes, found.scores, mean)

    def class_outputs(self) -> list[nn.Module]:
        """Return the layers that compute the logits of the classes."""
        return [cast(BoxHead, stage).class_output for stage in self.stages] or [self.proposer.head.class_output]

    def refine(self, levels: Sequence[Tensor], proposals: Proposals, sizes: Tensor) -> Detections:
        """Run all stages; the mean of their scores counts, and the boxes are those of the last one."""
        boxes, valid = self._used(proposals)
        logits: list[Tensor] = []
        for number, stage in enumerate(cast(Sequence[BoxHead], self.stages)):
            found, deltas = stage(levels, boxes)
            logits.append(found)
            if number < len(self.stages) - 1:
                boxes = stage.coder.decode(boxes, stage.of_class(deltas, found[..., :-1].argmax(dim=-1)), sizes)
        every = torch.stack(logits)
        scores = every.mean(dim=0).softmax(dim=-1) if self.average == "logits" else every.softmax(dim=-1).mean(dim=0)
        scores = scores[..., :-1]  # without the background
        return select_detections(stage.decode(boxes, deltas, sizes), scores, valid, sizes, self.rule)

    def _used(self, proposals: Proposals) -> tuple[Tensor, Tensor]:
        """Return the proposals that the stages read, and which are valid: without those after the last valid one.

        Some of them stay if there are fewer pairs of box and class than detections, whose number is fixed.
        """
        needed = -(-self.rule.max_boxes // cast(BoxHead, self.stages[0]).classes)
        used = max(leading_count(proposals.valid), needed)
        return proposals.boxes[:, :used], proposals.valid[:, :used]
