"""Heads that read the features of one box: its class and a better box, or its mask."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from patchword.kernels.roi_align import box_levels, roi_align
from patchword.kernels.roi_align.operation import Samples
from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.full_precision import full_precision
from patchword.layers.random_values import kaiming_normal, normal


@dataclass(frozen=True)
class RoiPool:
    """Features of boxes: RoIAlign on the level that fits the size of a box.

    strides: image pixels per cell of each map. size: rows and columns per box. aligned, samples: see `roi_align`.
    """

    strides: tuple[int, ...]
    size: int
    aligned: bool = True
    samples: Samples = "adaptive"

    def __call__(self, maps: Sequence[Tensor], boxes: Tensor) -> Tensor:
        """Return (batch * boxes, channels, size, size). Maps without a stride are not read."""
        levels = box_levels(boxes, len(self.strides))
        used, side = maps[: len(self.strides)], (self.size, self.size)
        found = roi_align(used, boxes, levels, self.strides, side, aligned=self.aligned, samples=self.samples)
        return found.flatten(0, 1)


class BoxHead(nn.Module):
    """Classifies boxes and refines them.

    width: channels of the maps. classes: without the background, which is the last logit.
    convolutions, inner: number and channels of 3x3 convolutions, each with batch normalization.
    layers, hidden: number and width of linear layers. class_agnostic: one box for all classes instead of one per class.
    """

    def __init__(
        self,
        pool: RoiPool,
        coder: BoxCoder,
        width: int,
        classes: int,
        *,
        layers: int,
        hidden: int,
        convolutions: int = 0,
        inner: int = 0,
        class_agnostic: bool = False,
    ) -> None:
        super().__init__()
        self.pool, self.coder, self.classes, self.class_agnostic = pool, coder, classes, class_agnostic
        convs = [_conv_norm(inner if number else width, inner) for number in range(convolutions)]
        self.convolutions = nn.Sequential(*convs)
        first = (inner if convolutions else width) * pool.size**2
        self.linear = nn.Sequential(
            *(
                layer
                for number in range(layers)
                for layer in (nn.Linear(hidden if number else first, hidden), nn.ReLU())
            )
        )
        self.class_output = nn.Linear(hidden, classes + 1)
        self.box_output = nn.Linear(hidden, 4 if class_agnostic else 4 * classes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform linear layers, small normal outputs, zero biases."""
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
            elif isinstance(layer, nn.Conv2d):
                kaiming_normal(layer.weight)
        normal(self.class_output.weight, std=0.01)
        normal(self.box_output.weight, std=0.001)

    def forward(self, maps: Sequence[Tensor], boxes: Tensor) -> tuple[Tensor, Tensor]:
        """Return (batch, boxes, classes + 1) logits and (batch, boxes, classes or 1, 4) deltas."""
        features = self.linear(self.convolutions(self.pool(maps, boxes)).flatten(1))
        logits, deltas = full_precision(self.class_output(features)), full_precision(self.box_output(features))
        shape = boxes.shape[:2]
        return logits.view(*shape, -1), deltas.view(*shape, -1, 4)

    def of_class(self, deltas: Tensor, labels: Tensor) -> Tensor:
        """Return the deltas of one class per box: (batch, boxes, classes, 4), (batch, boxes) -> (batch, boxes, 4)."""
        if self.class_agnostic:
            return deltas[:, :, 0]
        return deltas.gather(2, labels[..., None, None].expand(-1, -1, 1, 4)).squeeze(2)

    def decode(self, boxes: Tensor, deltas: Tensor, sizes: Tensor) -> Tensor:
        """Return the boxes of all classes, clipped to the image: (batch, boxes, classes or 1, 4)."""
        found = self.coder.decode(boxes[:, :, None].expand_as(deltas).flatten(1, 2), deltas.flatten(1, 2), sizes)
        return found.view_as(deltas)


class MaskHead(nn.Module):
    """Predicts a mask of each class inside each box, at twice the resolution of its features."""

    def __init__(self, pool: RoiPool, width: int, classes: int, *, inner: int, convolutions: int = 4) -> None:
        super().__init__()
        self.pool = pool
        layers: list[nn.Module] = []
        for number in range(convolutions):
            layers += [nn.Conv2d(inner if number else width, inner, 3, padding=1), nn.ReLU()]
        self.convolutions = nn.Sequential(*layers)
        self.upsample = nn.ConvTranspose2d(inner if convolutions else width, inner, 2, stride=2)
        self.output = nn.Conv2d(inner, classes, 1)
        self.reset_parameters()

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of a mask."""
        return 2 * self.pool.size, 2 * self.pool.size

    def reset_parameters(self) -> None:
        """Normal weights scaled by the number of outputs (He et al., 2015), zero biases."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                kaiming_normal(layer.weight)
                nn.init.zeros_(cast(Tensor, layer.bias))

    def forward(self, maps: Sequence[Tensor], boxes: Tensor, labels: Tensor) -> Tensor:
        """Return the logits of the mask of one class per box: (batch, boxes, rows, columns)."""
        found = self.output(torch.relu(self.upsample(self.convolutions(self.pool(maps, boxes)))))
        found = found.view(*boxes.shape[:2], *found.shape[1:])
        index = labels[..., None, None, None].expand(-1, -1, 1, *found.shape[-2:])
        return full_precision(found.gather(2, index).squeeze(2))


def _conv_norm(width: int, inner: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner), nn.ReLU())
