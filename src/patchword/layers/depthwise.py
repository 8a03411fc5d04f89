"""Depthwise convolutions of 3 x 3 over tokens where they lie: what a kernel does in place of torch's convolution.

Each answers None where the kernel is not to be used, or where someone watches the parts; then the plain way is taken.
"""

from typing import TypeGuard

import torch
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.kernels.neighbours import has_neighbours_kernel, neighbours
from patchword.layers.watched import is_watched


def convolved(tokens: Tensor, grid: Grid, convolution: nn.Module) -> Tensor | None:
    """(batch, tokens, width) -> (batch, tokens, width)"""
    if not _has_kernel(tokens, grid) or not _is_known(convolution):
        return None
    return neighbours(tokens, convolution.weight, convolution.bias, grid.height, grid.width)


def convolved_and_normed(tokens: Tensor, grid: Grid, convolution: nn.Module, norm: nn.Module) -> Tensor | None:
    """The same and a batch norm, which is part of the filter unless it learns from the batch."""
    if not _has_kernel(tokens, grid) or not _is_known(convolution):
        return None
    if type(norm) is not nn.BatchNorm2d or is_watched(norm):
        return None
    if norm.training or norm.running_mean is None:
        answer = neighbours(tokens, convolution.weight, convolution.bias, grid.height, grid.width)
        normed: Tensor = norm(grid.to_map(answer)[1])
        return normed.flatten(2).transpose(1, 2)
    weight, bias = folded(convolution, norm)
    return neighbours(tokens, weight, bias, grid.height, grid.width)


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
    if type(convolution) is not nn.Conv2d or is_watched(convolution):
        return False
    sizes = convolution.kernel_size, convolution.stride, convolution.padding, convolution.dilation
    alone = convolution.in_channels == convolution.out_channels == convolution.groups
    return alone and sizes == ((3, 3), (1, 1), (1, 1), (1, 1)) and convolution.padding_mode == "zeros"


def _has_kernel(tokens: Tensor, grid: Grid) -> bool:
    """Tokens before the map are no part of it. The first question is the one whose answer mostly is no."""
    return has_neighbours_kernel(tokens) and not grid.prefix
