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
