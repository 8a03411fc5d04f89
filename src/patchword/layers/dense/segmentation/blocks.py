"""Parts that the heads of segmenters share."""

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from patchword.kernels.enlarged_convolution import enlarge
from patchword.layers.dense.full_precision import full_precision

__all__ = ["ClassOutput", "ConvNormRelu", "enlarge"]


class ConvNormRelu(nn.Module):
    """A convolution without a bias, a batch norm and ReLU; the map keeps its size."""

    def __init__(self, channels: int, width: int, kernel: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, width, kernel, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, feature_map: Tensor) -> Tensor:
        """(batch, channels, rows, columns) -> (batch, width, rows, columns)"""
        return self.finish(self.convolution(feature_map))

    def finish(self, convolved: Tensor) -> Tensor:
        """Apply the norm and ReLU."""
        return F.relu(self.norm(convolved))


class ClassOutput(nn.Module):
    """Dropout of whole channels, then the logits of the classes of each cell, in float32."""

    def __init__(self, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout2d(dropout)
        self.convolution = nn.Conv2d(width, classes, 1)
        nn.init.normal_(self.convolution.weight, std=0.01)
        nn.init.zeros_(cast(Tensor, self.convolution.bias))

    def forward(self, feature_map: Tensor) -> Tensor:
        """(batch, width, rows, columns) -> (batch, classes, rows, columns)"""
        return full_precision(self.convolution(self.dropout(feature_map)))
