"""Deformable 3x3 convolution (Dai et al., 2017): columns that a kernel gathers, then one matrix product."""

import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.deformable_conv.reference import columns_reference


def deformable_conv(features: Tensor, offsets: Tensor, weight: Tensor) -> Tensor:
    """Return a 3x3 convolution of stride 1 and padding 1 whose taps read the map at offsets of their own.

    features: (batch, channels, height, width). weight: (outputs, channels, 3, 3).
    offsets: (batch, 18, height, width), in cells: y and x of the first tap, then of the next one, row by row.
    Result: (batch, outputs, height, width). Outside the map, taps read zeros, also in maps smaller than the kernel.
    """
    columns = deformable_columns(features, offsets)
    found = F.linear(columns.flatten(2), weight.permute(0, 2, 3, 1).flatten(1))
    return found.transpose(1, 2).unflatten(2, features.shape[2:])


def deformable_columns(features: Tensor, offsets: Tensor) -> Tensor:
    """Return what each tap reads at each cell: (batch, cells, taps, channels)."""
    return columns_reference(features, offsets)
