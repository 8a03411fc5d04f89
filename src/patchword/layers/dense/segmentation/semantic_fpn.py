"""The head of Semantic FPN (Kirillov et al., 2019): enlarges the levels of a pyramid step by step and adds them."""

from collections.abc import Sequence
from math import log2
from typing import cast

from torch import Tensor, nn

from patchword.layers.dense.segmentation.blocks import ClassOutput, ConvNormRelu, enlarge


class ScaleHead(nn.Module):
    """Convolves a level of the pyramid, and doubles its size after each convolution.

    doublings: convolutions that are followed by an enlargement; if it is 0, there is one convolution without.
    """

    def __init__(self, channels: int, width: int, doublings: int) -> None:
        super().__init__()
        self.doublings = doublings
        self.convolutions = nn.ModuleList(
            ConvNormRelu(channels if step == 0 else width, width, 3) for step in range(max(1, doublings))
        )

    def forward(self, level: Tensor) -> Tensor:
        """(batch, channels, rows, columns) -> (batch, width, rows * 2^doublings, columns * 2^doublings)"""
        for convolution in self.convolutions:
            level = convolution(level)
            if self.doublings:
                level = enlarge(level, (2 * level.shape[-2], 2 * level.shape[-1]))
        return level


class SemanticFpnHead(nn.Module):
    """Levels of a feature pyramid -> logits at the resolution of the finest one.

    strides: image pixels per cell of each level, finest first. channels: of the levels. width: of the head.
    """

    def __init__(self, strides: Sequence[int], channels: int, width: int, classes: int, *, dropout: float) -> None:
        super().__init__()
        doublings = [round(log2(stride / strides[0])) for stride in strides]
        self.scales = nn.ModuleList(ScaleHead(channels, width, each) for each in doublings)
        self.class_output = ClassOutput(width, classes, dropout)

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        """(batch, channels, rows, columns) per level -> (batch, classes, rows, columns) of the finest one"""
        total = self.scales[0](levels[0])
        for head, level in zip(self.scales[1:], levels[1:], strict=True):
            total = total + enlarge(head(level), total.shape[-2:])
        return cast(Tensor, self.class_output(total))
