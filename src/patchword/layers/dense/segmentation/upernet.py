"""UperNet (Xiao et al., 2018): pyramid pooling of the coarsest map, then a feature pyramid whose levels are fused."""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from patchword.kernels.enlarged_convolution import convolve_enlarged
from patchword.layers.dense.segmentation.blocks import ClassOutput, ConvNormRelu, enlarge
from patchword.layers.dense.segmentation.pyramid_pooling import PyramidPooling


class UperNetHead(nn.Module):
    """Maps of a backbone -> logits at the resolution of the finest map.

    widths: channels of the maps, finest first. width: channels of every level. scales: of the pyramid pooling.
    """

    def __init__(
        self, widths: Sequence[int], width: int, classes: int, *, scales: Sequence[int] = (1, 2, 3, 6), dropout: float
    ) -> None:
        super().__init__()
        self.pooling = PyramidPooling(widths[-1], width, scales)
        self.lateral = nn.ModuleList(ConvNormRelu(each, width, 1) for each in widths[:-1])
        self.output = nn.ModuleList(ConvNormRelu(width, width, 3) for _ in widths[:-1])
        self.fuse = ConvNormRelu(len(widths) * width, width, 3)
        self.class_output = ClassOutput(width, classes, dropout)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """(batch, widths[i], rows, columns) per map -> (batch, classes, rows, columns) of the finest one"""
        levels = self.levels(maps)
        return cast(Tensor, self.class_output(self.fuse.finish(convolve_enlarged(self.fuse.convolution, levels))))

    def levels(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Return the levels of the feature pyramid, finest first: (batch, width, rows, columns) each."""
        merged = [layer(each) for layer, each in zip(self.lateral, maps[:-1], strict=True)]
        merged.append(self.pooling(maps[-1]))
        for level in range(len(merged) - 1, 0, -1):
            merged[level - 1] = merged[level - 1] + enlarge(merged[level], merged[level - 1].shape[-2:])
        return [layer(each) for layer, each in zip(self.output, merged[:-1], strict=True)] + merged[-1:]


class FcnHead(nn.Module):
    """The auxiliary head of UperNet: a 3x3 convolution and the logits, on one map of the backbone.

    level: index of the map.
    """

    def __init__(self, channels: int, width: int, classes: int, *, level: int, dropout: float) -> None:
        super().__init__()
        self.level = level
        self.convolution = ConvNormRelu(channels, width, 3)
        self.class_output = ClassOutput(width, classes, dropout)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """(batch, widths[i], rows, columns) per map -> (batch, classes, rows, columns) of the chosen one"""
        return cast(Tensor, self.class_output(self.convolution(maps[self.level])))
