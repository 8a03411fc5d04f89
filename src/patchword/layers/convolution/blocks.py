"""Convolutional parts: what a residual network is made of, and what Transformers borrow from it."""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers.activation_checkpointing import CheckpointedBlock
from patchword.layers.convolution.depthwise import convolved, depthwise_residual
from patchword.layers.convolution.stem import check_channels
from patchword.layers.drop_path import DropPath
from patchword.layers.watched import has_hooks


class ConvNorm(nn.Module):
    """A convolution without a bias, then a batch norm."""

    def __init__(self, channels: int, width: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.stride, self.width = stride, width
        self.convolution = nn.Conv2d(channels, width, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, feature_map: Tensor) -> Tensor:
        """(batch, channels, rows, columns) -> (batch, width, rows / stride, columns / stride)"""
        return cast(Tensor, self.norm(self.convolution(feature_map)))


def shortcut(channels: int, width: int, stride: int) -> ConvNorm | None:
    """What brings the input of a residual to the size of its branch; nothing where it has that size."""
    return ConvNorm(channels, width, 1, stride) if stride > 1 or channels != width else None


class ConvStem(nn.Module):
    """The entrance of a network of convolutions. pool: makes the map smaller still."""

    def __init__(
        self, channels: int, width: int, kernel: int, stride: int = 1, *, pool: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.channels = channels
        self.first = ConvNorm(channels, width, kernel, stride)
        self.activation = nn.ReLU()
        self.pool = pool or nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, width, rows, columns)"""
        check_channels(images, self.channels)
        return cast(Tensor, self.pool(self.activation(self.first(images))))


class SqueezeExcite(nn.Module):
    """Scales each channel by a factor in (0, 1) read off the means of all channels (Hu et al., 2017)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(width, hidden, 1)
        self.activation = nn.ReLU()
        self.excite = nn.Conv2d(hidden, width, 1)

    def forward(self, feature_map: Tensor) -> Tensor:
        means = feature_map.mean((2, 3), keepdim=True)
        excited: Tensor = self.excite(self.activation(self.squeeze(means)))
        return feature_map * excited.sigmoid()


class ConvResidual(nn.Module):
    """relu(branch(x) + shortcut(x)) over a map (He et al., 2015)."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module | None = None, drop_path: float = 0.0) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut or nn.Identity()
        self.drop_path = DropPath(drop_path)
        self.activation = nn.ReLU()

    def forward(self, feature_map: Tensor) -> Tensor:
        depthwise_residual = self.drop_path(self.branch(feature_map)) + self.shortcut(feature_map)
        return cast(Tensor, self.activation(depthwise_residual))


class ConvStage(CheckpointedBlock):
    """Blocks over the map itself; its tokens are a view of the map, so nothing is copied between stages."""

    def __init__(self, entrance: nn.Module, blocks: Iterable[nn.Module], width: int, stride: int) -> None:
        super().__init__()
        self.entrance, self.width, self.stride = entrance, width, stride
        self.blocks = nn.ModuleList(blocks)

    def forward(self, images: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        feature_map = self.entrance(images)
        for block in self.blocks:
            feature_map = self.run(block, feature_map)
        return feature_map.flatten(2).transpose(1, 2), Grid(feature_map.shape[2], feature_map.shape[3])


class ConditionalPosition(nn.Module):
    """CPE: a depthwise 3 x 3 convolution tells a token where it is by its neighbours and the border (Chu et al., 2021).

    A residual of its own in a block. Leading tokens get nothing.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1, groups=width)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        assert scope.grid is not None, "conditional positions need tokens on a grid"
        answer = convolved(tokens, scope.grid, self.convolution)
        if answer is not None:
            return answer
        prefix, feature_map = scope.grid.to_map(tokens)
        return scope.grid.to_tokens(torch.zeros_like(prefix), self.convolution(feature_map))

    def at_once(self, tokens: Tensor, norm: nn.Module, scope: Scope) -> Tensor | None:
        """tokens + self(tokens) in one kernel; None where there is none, or where someone watches the parts"""
        if scope.grid is None or type(self) is not ConditionalPosition or type(norm) is not nn.Identity:
            return None
        return None if has_hooks(self) or has_hooks(norm) else depthwise_residual(tokens, scope.grid, self.convolution)
