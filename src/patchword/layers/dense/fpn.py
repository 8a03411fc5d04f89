"""Feature pyramid network (Lin et al., 2017): maps of several strides, made equally wide and enriched from above."""

from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

ExtraLevels = Literal["pool", "input", "output"]


class Fpn(nn.Module):
    """Maps of a backbone -> maps of one width, and extra coarser ones.

    widths: channels of the maps of the backbone, finest first. width: channels of every level of the pyramid.
    extra: number of extra levels.
    extra_from: "pool" takes every second cell of the level below (Mask R-CNN). "input" and "output" apply 3x3
        convolutions of stride 2, the first to the coarsest map of the backbone (RetinaNet) or to the coarsest level of
        the pyramid (ATSS), the others each to the level below.
    extra_relu: apply ReLU before each of them but the first (torchvision, detectron2: True; mmdet: False).
    """

    def __init__(
        self, widths: Sequence[int], width: int, *, extra: int, extra_from: ExtraLevels, extra_relu: bool = False
    ) -> None:
        super().__init__()
        self.extra, self.extra_from, self.extra_relu = extra, extra_from, extra_relu
        self.lateral = nn.ModuleList(nn.Conv2d(each, width, 1) for each in widths)
        self.output = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in widths)
        first = widths[-1] if extra_from == "input" else width
        made = 0 if extra_from == "pool" else extra
        self.downsample = nn.ModuleList(
            nn.Conv2d(first if level == 0 else width, width, 3, stride=2, padding=1) for level in range(made)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform weights and zero biases."""
        for layer in (*self.lateral, *self.output, *self.downsample):
            assert isinstance(layer, nn.Conv2d), "all layers are convolutions"
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """(batch, widths[i], height, width) per map -> (batch, width, height, width) per level, the extra ones last."""
        merged = [layer(each) for layer, each in zip(self.lateral, maps, strict=True)]
        for level in range(len(merged) - 1, 0, -1):
            below = merged[level - 1]
            merged[level - 1] = below + F.interpolate(merged[level], size=below.shape[-2:], mode="nearest")
        levels = [layer(each) for layer, each in zip(self.output, merged, strict=True)]
        return levels + self._extra_levels(maps[-1], levels[-1])

    def _extra_levels(self, given: Tensor, coarsest: Tensor) -> list[Tensor]:
        found: list[Tensor] = []
        if self.extra_from == "pool":
            for _ in range(self.extra):
                found.append(F.max_pool2d(found[-1] if found else coarsest, 1, stride=2))
            return found
        for layer in self.downsample:
            below = found[-1] if found else given if self.extra_from == "input" else coarsest
            found.append(layer(F.relu(below) if found and self.extra_relu else below))
        return found
