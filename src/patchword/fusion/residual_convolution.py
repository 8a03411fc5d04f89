"""Fused blocks of residual networks: batch norms folded into convolutions, which add and apply ReLU themselves."""

from collections.abc import Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.fusion.convolution import folded
from patchword.fusion.patterns import Fused, are_inactive, can_be_inactive, is_exactly
from patchword.kernels.common.availability import needs_grad
from patchword.kernels.conv_relu import conv_relu, has_conv_relu
from patchword.layers.convolution.blocks import ConvNorm, ConvResidual, ConvStem
from patchword.layers.dense.backbones import FixedBatchNorm2d


class FusedConvResidual(Fused):
    """relu(branch(x) + shortcut(x)) of a ResNet: each convolution with its batch norm and ReLU is one operation."""

    def __init__(self, original: ConvResidual) -> None:
        super().__init__()
        self.original: ConvResidual = original

    @classmethod
    def of(cls, module: nn.Module) -> "FusedConvResidual | None":
        if not isinstance(module, ConvResidual) or not is_exactly(module, ConvResidual):
            return None
        if not is_exactly(module.activation, nn.ReLU) or not can_be_inactive(module.drop_path):
            return None
        if not isinstance(module.branch, nn.Sequential) or not is_exactly(module.branch, nn.Sequential):
            return None
        parts = list(module.branch)
        known = all(_is_dense(part) for part in parts[::2]) and all(is_exactly(part, nn.ReLU) for part in parts[1::2])
        plain = is_exactly(module.shortcut, nn.Identity) or _is_dense(module.shortcut)
        return cls(module) if known and plain and len(parts) % 2 else None

    def forward(self, feature_map: Tensor) -> Tensor:
        """(batch, channels, rows, columns) -> (batch, width, rows / stride, columns / stride)"""
        block = self.original
        parts = [cast(ConvNorm, part) for part in list(block.branch.children())[::2]]
        extra = [block.shortcut] if isinstance(block.shortcut, ConvNorm) else []
        if not are_inactive(block.drop_path) or not _can_fuse(feature_map, [*parts, *extra]):
            return cast(Tensor, block(feature_map))
        addend = feature_map
        for shortcut in extra:
            addend = F.conv2d(feature_map, *_short(shortcut, feature_map), shortcut.stride)
        found = feature_map
        for part in parts[:-1]:
            found = conv_relu(found, *_short(part, found), part.stride, _padding(part))
        return conv_relu(found, *_short(parts[-1], found), parts[-1].stride, _padding(parts[-1]), addend)


class FusedConvStem(Fused):
    """The stem of a ResNet, a 7 x 7 convolution of stride 2, as a 4 x 4 convolution of blocks of 2 x 2 pixels.

    A block has 12 channels where a pixel has 3, which tensor cores multiply faster. The result is the same.
    """

    def __init__(self, original: ConvStem) -> None:
        super().__init__()
        self.original: ConvStem = original

    @classmethod
    def of(cls, module: nn.Module) -> "FusedConvStem | None":
        if not isinstance(module, ConvStem) or not is_exactly(module, ConvStem) or not _is_dense(module.first):
            return None
        convolution = module.first.convolution
        fits = convolution.kernel_size == (7, 7) and convolution.stride == (2, 2) and convolution.padding == (3, 3)
        return cls(module) if fits and is_exactly(module.activation, nn.ReLU) else None

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, width, rows, columns)"""
        stem = self.original
        if images.shape[2] % 2 or images.shape[3] % 2 or not _can_fuse(images, [stem.first]):
            return cast(Tensor, stem(images))
        weight, bias = _short(stem.first, images)
        # Output i reads pixels 2i - 3 to 2i + 3, which are in blocks i - 2 to i + 1; a zero is added in front.
        weight = F.pixel_unshuffle(F.pad(weight, (1, 0, 1, 0)), 2)
        blocks = F.pad(F.pixel_unshuffle(images, 2), (2, 1, 2, 1, 0, -weight.shape[1] % 8))
        weight = F.pad(weight, (0, 0, 0, 0, 0, -weight.shape[1] % 8))
        return cast(Tensor, stem.pool(conv_relu(blocks.contiguous(memory_format=torch.channels_last), weight, bias)))


def _is_dense(module: nn.Module) -> bool:
    """True for a convolution with one group and no dilation, and a batch norm."""
    if not isinstance(module, ConvNorm) or not is_exactly(module, ConvNorm):
        return False
    convolution, norm = module.convolution, module.norm
    if not is_exactly(convolution, nn.Conv2d) or convolution.groups > 1 or convolution.padding_mode != "zeros":
        return False
    square = len(set(convolution.stride)) == len(set(cast(tuple[int, int], convolution.padding))) == 1
    return square and convolution.dilation == (1, 1) and is_exactly(norm, nn.BatchNorm2d, FixedBatchNorm2d)


def _can_fuse(feature_map: Tensor, parts: list[ConvNorm]) -> bool:
    if any(_uses_batch_statistics(part.norm) for part in parts):
        return False
    return has_conv_relu(feature_map) and not needs_grad(feature_map, *_weights(parts))


def _weights(parts: list[ConvNorm]) -> Iterator[Tensor]:
    for part in parts:
        yield part.convolution.weight
        yield from part.norm.parameters()


def _uses_batch_statistics(norm: nn.BatchNorm2d) -> bool:
    fixed = isinstance(norm, FixedBatchNorm2d) or not norm.training
    return not fixed or norm.running_mean is None


def _short(part: ConvNorm, like: Tensor) -> tuple[Tensor, Tensor]:
    """Weight and bias with the norm folded in, in the dtype of the map."""
    weight, bias = folded(part.convolution, part.norm)
    return weight.to(like.dtype), bias.to(like.dtype)


def _padding(part: ConvNorm) -> int:
    return cast(tuple[int, int], part.convolution.padding)[0]
