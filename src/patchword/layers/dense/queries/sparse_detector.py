"""Sparse R-CNN (Sun et al., 2021): learned boxes and queries that several heads refine, without anchors and NMS."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from patchword.core.geometry.boxes import clip_boxes
from patchword.core.geometry.objects import Detections, take
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.fpn import Fpn
from patchword.layers.dense.queries.box_forms import to_corners, to_pixels
from patchword.layers.dense.queries.sparse_head import SparseHead, SparseOutput
from patchword.layers.random_values import normal


class SparseDetector(Detector):
    """Detects one object per query.

    proposals: number of queries. stages: heads that refine boxes and queries one after the other.
    max_boxes: detections per image, the best pairs of query and class.
    clipped: detections are clipped to the image (the authors' code: True; mmdet: False).
    """

    def __init__(
        self,
        backbone: nn.Module,
        neck: Fpn,
        stages: Sequence[SparseHead],
        proposals: int,
        width: int,
        max_boxes: int,
        clipped: bool = True,
    ) -> None:
        super().__init__()
        self.backbone, self.neck, self.max_boxes, self.clipped = backbone, neck, max_boxes, clipped
        self.boxes = nn.Parameter(
            torch.empty(proposals, 4)
        )  # center x, center y, width, height, as shares of the image
        self.queries = nn.Parameter(torch.empty(proposals, width))
        self.stages, self.masks = nn.ModuleList(stages), nn.ModuleList()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Each box starts as the whole image, and queries are normally distributed."""
        with torch.no_grad():
            self.boxes[:, :2].fill_(0.5)
            self.boxes[:, 2:].fill_(1.0)
        normal(self.queries, std=1.0)

    def features(self, images: Tensor) -> list[Tensor]:
        """Return the maps of the neck."""
        return cast(list[Tensor], self.neck(self.backbone(images)))

    def class_outputs(self) -> list[nn.Module]:
        """Return the layers that compute the logits of the classes."""
        return [cast(SparseHead, stage).class_output for stage in self.stages]

    def refine(self, levels: Sequence[Tensor], sizes: Tensor) -> list[SparseOutput]:
        """Return the predictions of each head. A head reads the boxes of the one before, without their gradient."""
        batch = sizes.shape[0]
        boxes = to_pixels(to_corners(self.boxes).expand(batch, -1, -1), sizes)
        queries = self.queries.expand(batch, -1, -1)
        found: list[SparseOutput] = []
        for stage in cast(Sequence[SparseHead], self.stages):
            output = stage(levels, boxes, queries)
            boxes, queries = output.boxes.detach(), output.queries
            found.append(output)
        return found

    def detect(self, levels: Sequence[Tensor], sizes: Tensor) -> Detections:
        """Detect objects on the maps of the neck."""
        last = self.refine(levels, sizes)[-1]
        classes = last.logits.shape[-1]
        scores = last.logits.sigmoid().flatten(1)
        top = scores.topk(min(self.max_boxes, scores.shape[1]), dim=1)
        boxes = take(last.boxes, top.indices // classes)
        if self.clipped:
            boxes = clip_boxes(boxes, sizes)
        return Detections(boxes, top.indices % classes, torch.ones_like(top.indices) > 0, sizes, top.values)
