"""The reference implementations of the depthwise convolutions, in PyTorch."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class SeparableWeights(NamedTuple):
    """taps: (width, 1, 3, 3). scale, shift, mean, variance: (width,), of the norm. matrix: (width, width)"""

    taps: Tensor
    scale: Tensor
    shift: Tensor
    mean: Tensor
    variance: Tensor
    matrix: Tensor
    bias: Tensor


def depthwise_conv_reference(tokens: Tensor, weight: Tensor, bias: Tensor | None, height: int, width: int) -> Tensor:
    """(batch, height * width, channels) -> the same shape. weight: (channels, 1, 3, 3)"""
    feature_map = tokens.transpose(1, 2).unflatten(2, (height, width))
    return F.conv2d(feature_map, weight, bias, padding=1, groups=len(weight)).flatten(2).transpose(1, 2)


def depthwise_residual_reference(tokens: Tensor, weight: Tensor, bias: Tensor, height: int, width: int) -> Tensor:
    """tokens + depthwise_conv(tokens)"""
    return tokens + depthwise_conv_reference(tokens, weight, bias, height, width)


def separable_qkv_reference(
    tokens: Tensor, parts: Sequence[SeparableWeights], eps: float, height: int, width: int
) -> Tensor:
    """(batch, height * width, channels) -> queries, keys and values, concatenated along the channels"""
    return torch.cat([_separable_reference(tokens, part, eps, height, width) for part in parts], -1)


def _separable_reference(tokens: Tensor, part: SeparableWeights, eps: float, height: int, width: int) -> Tensor:
    filtered = depthwise_conv_reference(tokens, part.taps, None, height, width).flatten(0, 1)
    normed = F.batch_norm(filtered, part.mean, part.variance, part.scale, part.shift, eps=eps)
    return F.linear(normed.view_as(tokens), part.matrix, part.bias)
