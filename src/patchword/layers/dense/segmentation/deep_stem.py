"""The stem of mmseg's ResNets (ResNetV1c): three 3x3 convolutions instead of one of 7x7 (He et al., 2018)."""

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from patchword.layers.convolution.blocks import ConvNorm
from patchword.layers.convolution.stem import check_channels


class DeepStem(nn.Module):
    """Reduces images to a quarter of their size. width: channels of the result; half of it before the last layer."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.channels = channels
        self.first = ConvNorm(channels, width // 2, 3, 2)
        self.second = ConvNorm(width // 2, width // 2, 3)
        self.third = ConvNorm(width // 2, width, 3)
        self.pool = nn.MaxPool2d(3, 2, 1)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, width, rows, columns)"""
        check_channels(images, self.channels)
        found = images
        for layer in (self.first, self.second, self.third):
            found = F.relu(layer(found))
        return cast(Tensor, self.pool(found))
