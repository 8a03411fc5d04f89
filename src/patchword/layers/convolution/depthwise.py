"""Depthwise convolutions of 3 x 3 over tokens where they lie: what a kernel does in place of torch's convolution.

Each answers None where the kernel is not to be used, or where someone watches the parts; then the plain way is taken.
"""

from collections.abc import Sequence
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.kernels.common.availability import needs_grad, short_dtype
from patchword.kernels.depthwise_conv.depthwise_residual import depthwise_residual as added_at_once
from patchword.kernels.depthwise_conv.depthwise_residual import has_depthwise_residual_kernel
from patchword.kernels.depthwise_conv.operation import depthwise_conv, has_depthwise_conv_kernel
from patchword.kernels.depthwise_conv.separable_qkv import SeparableWeights, has_separable_qkv_kernel, separable_qkv
from patchword.layers.watched import has_hooks

Step = tuple[nn.Module, nn.Module, nn.Module]  # a convolution, a norm, a matrix


def convolved(tokens: Tensor, grid: Grid, convolution: nn.Module) -> Tensor | None:
    """(batch, tokens, width) -> (batch, tokens, width)"""
    if not _has_kernel(tokens, grid) or not _is_known(convolution):
        return None
    return depthwise_conv(tokens, convolution.weight, convolution.bias, grid.height, grid.width)


def depthwise_residual(tokens: Tensor, grid: Grid, convolution: nn.Module) -> Tensor | None:
    """tokens + what the convolution answers, in 16 bits without gradients: a filter whose middle is one more, so that
    no sum reads and writes the map again. In float32 until the answer, which is of the tokens' kind."""
    if not _has_kernel(tokens, grid) or not _is_known(convolution):
        return None
    read = convolution.weight, convolution.bias
    if needs_grad(tokens, *read) or short_dtype(tokens, *read) is None:
        return None
    if convolution.bias is not None and has_depthwise_residual_kernel(tokens, convolution.weight, convolution.bias):
        return added_at_once(tokens, convolution.weight, convolution.bias, grid.height, grid.width)
    weight = convolution.weight.float() + F.pad(convolution.weight.new_ones(1, 1), (1, 1, 1, 1))
    return depthwise_conv(tokens, weight, convolution.bias, grid.height, grid.width, tokens.dtype)


def convolved_and_normed(tokens: Tensor, grid: Grid, convolution: nn.Module, norm: nn.Module) -> Tensor | None:
    """The same and a batch norm, which is part of the filter unless it learns from the batch."""
    if not _has_kernel(tokens, grid) or not _is_known(convolution):
        return None
    if type(norm) is not nn.BatchNorm2d or has_hooks(norm):
        return None
    if norm.training or norm.running_mean is None:
        answer = depthwise_conv(tokens, convolution.weight, convolution.bias, grid.height, grid.width)
        normed: Tensor = norm(grid.to_map(answer)[1])
        return normed.flatten(2).transpose(1, 2)
    weight, bias = folded(convolution, norm)
    return depthwise_conv(tokens, weight, bias, grid.height, grid.width)


def projected(tokens: Tensor, grid: Grid, steps: Sequence[Step | None]) -> list[Tensor] | None:
    """(batch, tokens, width) -> queries, keys and values.

    The norms must not learn from the batch, and no gradient is wanted. A step is None where someone watches it.
    """
    found = [None if step is None else _separable(*step) for step in steps]
    known = [each for each in found if each is not None]
    if grid.prefix or len(known) < len(steps) or tokens.shape[1] != grid.height * grid.width:
        return None
    parts, eps = [part for part, _ in known], [eps for _, eps in known]
    if min(eps) < max(eps) or not has_separable_qkv_kernel(tokens, parts):
        return None
    return separable_qkv(tokens, parts, eps[0], grid.height, grid.width)


def _separable(convolution: nn.Module, norm: nn.Module, linear: nn.Module) -> tuple[SeparableWeights, float] | None:
    """What the kernel must be told of three parts, and the norm's eps; None if it does not know them."""
    if not _is_known(convolution) or convolution.bias is not None or type(norm) is not nn.BatchNorm2d:
        return None
    if norm.training or norm.running_mean is None or norm.running_var is None or not norm.affine:
        return None
    if type(linear) is not nn.Linear or linear.bias is None or has_hooks(norm) or has_hooks(linear):
        return None
    kept = norm.weight, norm.bias, norm.running_mean, norm.running_var
    return SeparableWeights(convolution.weight, *kept, linear.weight, linear.bias), norm.eps


def folded(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """The weight and the bias of the convolution that does what both do with the means and variances that are kept.

    In float32, so that nothing is lost before the kernel adds.
    """
    assert norm.running_mean is not None, "the norm keeps means"
    assert norm.running_var is not None, "the norm keeps variances"
    scale, mean = (norm.running_var.float() + norm.eps).rsqrt(), norm.running_mean.float()
    if norm.affine:
        scale = scale * norm.weight
    if convolution.bias is not None:
        mean = mean - convolution.bias
    bias = torch.addcmul(norm.bias.float(), mean, scale, value=-1) if norm.affine else -mean * scale
    return convolution.weight * scale.view(-1, 1, 1, 1), bias


def _is_known(convolution: nn.Module) -> TypeGuard[nn.Conv2d]:
    """No other class than torch's own (quantised, parametrised), depthwise, 3 x 3, with zeros around the map."""
    if type(convolution) is not nn.Conv2d or has_hooks(convolution):
        return False
    sizes = convolution.kernel_size, convolution.stride, convolution.padding, convolution.dilation
    alone = convolution.in_channels == convolution.out_channels == convolution.groups
    return alone and sizes == ((3, 3), (1, 1), (1, 1), (1, 1)) and convolution.padding_mode == "zeros"


def _has_kernel(tokens: Tensor, grid: Grid) -> bool:
    """Tokens before the map are no part of it. The first question is the one whose answer mostly is no."""
    return has_depthwise_conv_kernel(tokens) and not grid.prefix and tokens.shape[1] == grid.height * grid.width
