"""Box coder: boxes as deltas to reference boxes such as anchors or proposals."""

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from patchword.core.geometry.boxes import box_centers, clip_boxes
from patchword.layers.dense.constants import constant


@dataclass(frozen=True)
class BoxCoder:
    """Deltas are the offset of the center in sizes of the reference box, and the logarithm of the ratio of the sizes.

    stds: what (dx, dy, dw, dh) are divided by. max_log_ratio: upper limit of dw and dh when decoding.
    clamp_below: limit dw and dh to -max_log_ratio as well (mmdet: True; torchvision and detectron2: False).
    """

    stds: tuple[float, float, float, float]
    clamp_below: bool
    max_log_ratio: float = log(1000 / 16)

    def encode(self, references: Tensor, boxes: Tensor) -> Tensor:
        """Return the deltas that lead from references to boxes: (..., 4), (..., 4) -> (..., 4)."""
        size, target = references[..., 2:] - references[..., :2], boxes[..., 2:] - boxes[..., :2]
        offset = (box_centers(boxes) - box_centers(references)) / size
        return torch.cat([offset, (target / size).log()], dim=-1) / self._stds(boxes)

    def decode(self, references: Tensor, deltas: Tensor, sizes: Tensor | None = None) -> Tensor:
        """Return the boxes that deltas describe: (..., 4), (..., 4) -> (..., 4).

        sizes: (batch, 2), height and width of each image, to which (batch, boxes, 4) are clipped. None clips nothing.
        """
        offset, log_ratio = (deltas * self._stds(deltas)).split(2, dim=-1)
        log_ratio = log_ratio.clamp(-self.max_log_ratio if self.clamp_below else None, self.max_log_ratio)
        size = references[..., 2:] - references[..., :2]
        center, half = box_centers(references) + offset * size, log_ratio.exp() * size / 2
        boxes = torch.cat([center - half, center + half], dim=-1)
        return boxes if sizes is None else clip_boxes(boxes, sizes)

    def _stds(self, like: Tensor) -> Tensor:
        return constant(self.stds, like.dtype, like.device)
