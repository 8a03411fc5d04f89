"""A convolution over the few channels of an image, differentiable."""

import torch.nn.functional as F
from torch import Tensor

_FEW_CHANNELS = 4


def image_conv2d(feature_map: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    """F.conv2d; on a GPU, and for few channels, as a matrix product: cuDNN's convolutions are made for more channels,
    and would convert an image to channels-last first."""
    if feature_map.is_cuda and feature_map.shape[1] <= _FEW_CHANNELS:
        return conv2d_as_matmul(feature_map, weight, bias, stride, padding)
    return F.conv2d(feature_map, weight, bias, stride, padding)


def conv2d_as_matmul(feature_map: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    """F.conv2d with a square kernel as one matrix product over copied patches.

    The kernel's rows are padded with zeros to a multiple of 8, so that rows of patches start at aligned addresses.
    """
    kernel = weight.shape[-1]
    more = -kernel % 8
    around = F.pad(feature_map, (padding, padding + more, padding, padding))
    cut = around.unfold(2, kernel, stride).unfold(3, kernel + more, stride)
    patches = cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    tokens = F.linear(patches, F.pad(weight, (0, more)).flatten(1), bias)
    convolved: Tensor = tokens.transpose(1, 2).unflatten(2, (cut.shape[2], cut.shape[3]))
    return convolved
