"""Fused depthwise convolutions: with a batch norm, with a residual sum, and the projection to query, key and value."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.fusion.patterns import Fused, is_biased_linear, is_exactly, is_plain, is_pre_norm
from patchword.kernels.common.availability import needs_grad, short_dtype
from patchword.kernels.depthwise_conv.depthwise_residual import depthwise_residual, has_depthwise_residual_kernel
from patchword.kernels.depthwise_conv.operation import (
    depthwise_conv,
    depthwise_conv2d,
    has_depthwise_conv2d_kernel,
    has_depthwise_conv_kernel,
)
from patchword.kernels.depthwise_conv.reference import SeparableWeights
from patchword.kernels.depthwise_conv.separable_qkv import has_separable_qkv_kernel, separable_qkv
from patchword.layers.attention.projection import Projected, SeparableLinear, SeparableProjection
from patchword.layers.block import Residual
from patchword.layers.convolution.blocks import ConditionalPosition, ConvNorm
from patchword.layers.convolution.depthwise import DepthwiseConv2d


class FoldedConvNorm(Fused):
    """A depthwise convolution and its batch norm as one convolution, if the norm uses its running statistics."""

    def __init__(self, original: ConvNorm) -> None:
        super().__init__()
        self.original: ConvNorm = original

    @classmethod
    def of(cls, module: nn.Module) -> "FoldedConvNorm | None":
        if not isinstance(module, ConvNorm) or not is_exactly(module, ConvNorm):
            return None
        known = is_exactly(module.convolution, DepthwiseConv2d) and is_exactly(module.norm, nn.BatchNorm2d)
        return cls(module) if known and module.norm.running_mean is not None else None

    def forward(self, feature_map: Tensor) -> Tensor:
        """(batch, channels, rows, columns) -> (batch, channels, rows, columns)"""
        norm = self.original.norm
        if norm.training or norm.running_mean is None or not has_depthwise_conv2d_kernel(feature_map):
            return cast(Tensor, self.original(feature_map))
        return depthwise_conv2d(feature_map, *folded(self.original.convolution, norm))


def folded(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Weight and bias of the convolution that equals a convolution and its batch norm with running statistics.

    In float32, so that no precision is lost before the kernel accumulates.
    """
    assert norm.running_mean is not None, "the norm has running means"
    assert norm.running_var is not None, "the norm has running variances"
    scale, mean = (norm.running_var.float() + norm.eps).rsqrt(), norm.running_mean.float()
    if norm.affine:
        scale = scale * norm.weight
    if convolution.bias is not None:
        mean = mean - convolution.bias
    bias = torch.addcmul(norm.bias.float(), mean, scale, value=-1) if norm.affine else -mean * scale
    return convolution.weight * scale.view(-1, 1, 1, 1), bias


class DepthwiseResidual(Fused):
    """Conditional positions and their residual sum as one kernel."""

    def __init__(self, original: Residual) -> None:
        super().__init__()
        self.original: Residual = original

    @classmethod
    def of(cls, module: nn.Module) -> "DepthwiseResidual | None":
        if not is_pre_norm(module) or not is_exactly(module.norm, nn.Identity):
            return None
        part = module.sublayer
        if not isinstance(part, ConditionalPosition) or not is_exactly(part, ConditionalPosition):
            return None
        return cls(module) if is_exactly(part.convolution, DepthwiseConv2d) else None

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        convolution, grid = cast(ConditionalPosition, self.original.sublayer).convolution, scope.grid
        weight, bias = convolution.weight, convolution.bias
        if grid is None or not is_plain(self.original) or not _fills(tokens, grid):
            return cast(Tensor, self.original(tokens, scope))
        short = short_dtype(tokens, weight, bias) is not None
        if not has_depthwise_conv_kernel(tokens) or needs_grad(tokens, weight, bias) or not short:
            return cast(Tensor, self.original(tokens, scope))
        if bias is not None and has_depthwise_residual_kernel(tokens, weight, bias):
            return depthwise_residual(tokens, weight, bias, grid.height, grid.width)
        # the sum is one more at the centre of the kernel, in float32 until the output
        centre = F.pad(weight.new_ones(1, 1), (1, 1, 1, 1))
        return depthwise_conv(tokens, weight.float() + centre, bias, grid.height, grid.width, tokens.dtype)


class SeparableQKV(Fused):
    """The convolutions and norms of queries, keys and values as one kernel, then the three products."""

    def __init__(self, original: SeparableProjection, eps: float) -> None:
        super().__init__()
        self.original: SeparableProjection = original
        self.eps = eps

    @classmethod
    def of(cls, module: nn.Module) -> "SeparableQKV | None":
        if not isinstance(module, SeparableProjection) or not is_exactly(module, SeparableProjection):
            return None
        parts = (module.query, module.key, module.value)
        if not all(_is_separable(part) for part in parts):
            return None
        eps = {_conv_norm(part).norm.eps for part in parts}
        return cls(module, eps.pop()) if len(eps) == 1 else None

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        """(batch, tokens, width) -> queries, keys and values"""
        part, grid = self.original, scope.grid
        parts = (part.query, part.key, part.value)
        if grid is None or not _fills(tokens, grid) or any(_conv_norm(each).norm.training for each in parts):
            return cast(Projected, part(tokens, scope))
        weights = [_separable_weights(each) for each in parts]
        if not has_separable_qkv_kernel(tokens, weights):
            return cast(Projected, part(tokens, scope))
        query, key, value = separable_qkv(tokens, weights, self.eps, grid.height, grid.width)
        return Projected(query, key, value, scope.mask, grid)


def _is_separable(module: nn.Module) -> bool:
    """True if the kernel knows all three parts of one projection."""
    if not isinstance(module, SeparableLinear) or not is_exactly(module, SeparableLinear):
        return False
    if not isinstance(module.depthwise, FoldedConvNorm) or not is_biased_linear(module.linear):
        return False
    convolution, norm = module.depthwise.original.convolution, module.depthwise.original.norm
    return convolution.bias is None and norm.affine and norm.running_var is not None


def _conv_norm(module: SeparableLinear) -> ConvNorm:
    """the convolution and norm that a rule has replaced"""
    return cast(FoldedConvNorm, module.depthwise).original


def _separable_weights(module: SeparableLinear) -> SeparableWeights:
    convolution, norm, linear = _conv_norm(module).convolution, _conv_norm(module).norm, module.linear
    assert norm.running_mean is not None, "the norm has running means"
    assert norm.running_var is not None, "the norm has running variances"
    kept = norm.weight, norm.bias, norm.running_mean, norm.running_var
    return SeparableWeights(convolution.weight, *kept, linear.weight, linear.bias)


def _fills(tokens: Tensor, grid: Grid) -> bool:
    """True if all tokens are on the map: there is no prefix."""
    return not grid.prefix and tokens.shape[1] == grid.height * grid.width
