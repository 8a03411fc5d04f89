"""RepPoints v2 as a detector: boxes from points, whose corners move to the best corner nearby."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from patchword.core.geometry.boxes import clip_boxes
from patchword.core.geometry.objects import Detections, take
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.points.bifpn import BiFpn
from patchword.layers.dense.points.reppoints_head import PointsOutput, RepPointsHead
from patchword.layers.dense.selection import Selection, select_detections


class RepPointsDetector(Detector):
    """Detects objects by points at each cell.

    strides: image pixels per cell of each level. rule: the selection of the detections.
    corners_from: for each level, the level whose corner scores refine its boxes, or None for no refinement.
    """

    def __init__(
        self,
        backbone: nn.Module,
        neck: BiFpn,
        head: RepPointsHead,
        strides: Sequence[int],
        rule: Selection,
        corners_from: Sequence[int | None] = (None, 0, 0, 1, 1),
    ) -> None:
        super().__init__()
        self.backbone, self.neck, self.head, self.strides, self.rule = backbone, neck, head, tuple(strides), rule
        self.corners_from = tuple(corners_from)[: len(self.strides)]
        self.masks = nn.ModuleList()

    def features(self, images: Tensor) -> list[Tensor]:
        """Return the maps of the neck. It reads the coarsest maps of the backbone, as many as it has inputs."""
        maps = self.backbone(images)
        return cast(list[Tensor], self.neck(maps[len(maps) - self.neck.inputs :]))

    def class_outputs(self) -> list[nn.Module]:
        """Return the layers that compute the logits of the classes."""
        return [self.head.class_output, self.head.semantic_output]

    def detect(self, levels: Sequence[Tensor], sizes: Tensor) -> Detections:
        """Detect objects on the maps of the neck."""
        output = self.head(levels)
        scores, boxes = output.logits.sigmoid(), self.boxes(output, output.refined)
        counts = [height * width for height, width in output.shapes]
        best_scores, best_boxes = [], []
        for level, (own_scores, own_boxes) in enumerate(
            zip(scores.split(counts, 1), boxes.split(counts, 1), strict=True)
        ):
            most = min(self.rule.pre_nms_per_level, counts[level])
            top = own_scores.amax(dim=-1).topk(most, dim=1).indices
            found, source = clip_boxes(take(own_boxes, top), sizes), self.corners_from[level]
            if source is not None:
                found = clip_boxes(self._snapped(found, output, source), sizes)
            best_scores.append(take(own_scores, top))
            best_boxes.append(found)
        every = torch.cat(best_scores, dim=1)
        valid = torch.ones_like(every[..., 0], dtype=torch.bool)
        return select_detections(torch.cat(best_boxes, dim=1)[:, :, None], every, valid, sizes, self.rule)

    def centers(self, output: PointsOutput) -> tuple[Tensor, Tensor]:
        """Return x and y of the cells of all levels in pixels, (cells, 2), and their strides, (cells, 1)."""
        places, strides = [], []
        for (height, width), stride in zip(output.shapes, self.strides, strict=True):
            cell = torch.arange(height * width, device=output.first.device)
            places.append(torch.stack([cell % width, cell // width], dim=1) * stride)
            strides.append(torch.full_like(cell, stride))
        return torch.cat(places).to(output.first.dtype), torch.cat(strides).to(output.first.dtype)[:, None]

    def boxes(self, output: PointsOutput, points: Tensor) -> Tensor:
        """Return boxes in pixels, whose corners are the first two points: (batch, cells, 18) -> (batch, cells, 4)."""
        centers, strides = self.centers(output)
        corners = torch.stack([points[..., 1], points[..., 0], points[..., 3], points[..., 2]], dim=-1)
        return corners * strides + centers.repeat(1, 2)

    def _snapped(self, boxes: Tensor, output: PointsOutput, level: int) -> Tensor:
        """Move each corner to the best of the 2x2 cells that hold it on a level, plus the offset that this predicts."""
        start = sum(height * width for height, width in output.shapes[:level])
        (height, width), stride = output.shapes[level], self.strides[level]
        scores = output.corner_scores[:, start : start + height * width].sigmoid()
        offsets = output.corner_offsets[:, start : start + height * width]
        found = []
        for corner in range(2):
            x, y = boxes[..., 2 * corner : 2 * corner + 2].unbind(-1)
            column = (x / stride).clamp(0, max(width - 2, 0)).floor().long()
            row = (y / stride).clamp(0, max(height - 2, 0)).floor().long()
            cells = torch.stack(
                [
                    (row + down).clamp(max=height - 1) * width + (column + right).clamp(max=width - 1)
                    for down in range(2)
                    for right in range(2)
                ],
                dim=-1,
            )
            own = take(scores[..., corner], cells.flatten(1)).view_as(cells)
            cell = cells.gather(-1, own.argmax(dim=-1, keepdim=True)).squeeze(-1)
            place = torch.stack([cell % width, cell // width], dim=-1)
            found.append((place + take(offsets[..., 2 * corner : 2 * corner + 2], cell)) * stride)
        return torch.cat(found, dim=-1)
