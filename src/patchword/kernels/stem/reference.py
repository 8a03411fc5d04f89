"""The reference implementations of the stem kernels, in PyTorch."""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class ConvStemWeights(NamedTuple):
    """weight: (width, channels, kernel, kernel). scale, shift: of the norm"""

    weight: Tensor
    bias: Tensor
    scale: Tensor
    shift: Tensor


def conv_stem_norm_reference(image: Tensor, parts: ConvStemWeights, stride: int, padding: int, eps: float) -> Tensor:
    tokens = F.conv2d(image, parts.weight, parts.bias, stride, padding).flatten(2).transpose(1, 2)
    return F.layer_norm(tokens, parts.scale.shape, parts.scale, parts.shift, eps)


def patch_merge_norm_reference(feature_map: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    return F.layer_norm(side_by_side(feature_map), scale.shape, scale, shift, eps)


def side_by_side(feature_map: Tensor) -> Tensor:
    """Concatenates the four tokens of each 2 x 2 patch along the channels.

    (batch, channels, height, width), of even sides -> (batch, height / 2 * width / 2, 4 * channels)
    """
    cut: Tensor = feature_map.unflatten(3, (-1, 2)).unflatten(2, (-1, 2))
    return cut.permute(0, 2, 4, 5, 3, 1).flatten(3).flatten(1, 2)
