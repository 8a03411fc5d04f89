"""Pyramid pooling (Zhao et al., 2017): a map, together with means of its regions at several sizes."""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.layers.dense.segmentation.blocks import ConvNormRelu, enlarge


class PyramidPooling(nn.Module):
    """Concatenates a map with its pooled, projected and enlarged versions, and fuses them by a 3x3 convolution.

    scales: rows and columns of each pooled map.
    """

    def __init__(self, channels: int, width: int, scales: Sequence[int]) -> None:
        super().__init__()
        self.scales = tuple(scales)
        self.pooled = nn.ModuleList(ConvNormRelu(channels, width, 1) for _ in scales)
        self.fuse = ConvNormRelu(channels + len(self.scales) * width, width, 3)

    def forward(self, feature_map: Tensor) -> Tensor:
        """(batch, channels, rows, columns) -> (batch, width, rows, columns)"""
        try:
            pooled = [
                project(F.adaptive_avg_pool2d(feature_map, scale))
                for scale, project in zip(self.scales, self.pooled, strict=True)
            ]
        except ValueError as error:  # of a batch norm in training
            if feature_map.shape[0] > 1:
                raise
            raise UserError(
                "pyramid pooling cannot be trained with one image per step",
                expected="at least two images: a batch norm normalizes the mean of each image over the batch",
                got=str(error),
            ) from None
        enlarged = [enlarge(each, feature_map.shape[-2:]) for each in pooled]
        return cast(Tensor, self.fuse(torch.cat([feature_map, *enlarged], dim=1)))
