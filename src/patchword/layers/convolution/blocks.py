"""Convolutional parts of residual networks and of Transformers."""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers.activation_checkpointing import CheckpointedBlock
from patchword.layers.convolution.depthwise import DepthwiseConv2d, over_map
from patchword.layers.convolution.stem import check_channels
from patchword.layers.drop_path import DropPath


class ConvNorm(nn.Module):
    """A convolution without a bias, then a batch norm."""

    def __init__(self, channels: int, width: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.stride, self.width = stride, width
        is_depthwise = (channels, kernel, stride) == (groups, 3, 1) and channels == width
        self.convolution = (
            DepthwiseConv2d(width, bias=False)
            if is_depthwise
            else nn.Conv2d(channels, width, kernel, stride, kernel // 2, groups=groups, bias=False)
        )
        self.norm = nn.BatchNorm2d(width)

    def forward(self, feature_map: Tensor) -> Tensor:
        """(batch, channels, rows, columns) -> (batch, width, rows / stride, columns / stride)"""
        return cast(Tensor, self.norm(self.convolution(feature_map)))


def shortcut(channels: int, width: int, stride: int) -> ConvNorm | None:
    """A projection of a residual's input to the shape of its branch; None where the shapes are equal."""
    return ConvNorm(channels, width, 1, stride) if stride > 1 or channels != width else None


class ConvStem(nn.Module):
    """The stem of a convolutional network. pool: reduces the map further."""

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
    """Scales each channel by a factor in (0, 1), computed from the means of all channels (Hu et al., 2017)."""

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
        summed = self.drop_path(self.branch(feature_map)) + self.shortcut(feature_map)
        return cast(Tensor, self.activation(summed))


class ConvStage(CheckpointedBlock):
    """Blocks over the map itself; its tokens are a view of the map, so nothing is copied between stages."""

    def __init__(self, stem: nn.Module, blocks: Iterable[nn.Module], width: int, stride: int) -> None:
        super().__init__()
        self.stem, self.width, self.stride = stem, width, stride
        self.blocks = nn.ModuleList(blocks)

    def forward(self, images: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        feature_map = self.stem(images)
        for block in self.blocks:
            feature_map = self.run(block, feature_map)
        return _as_tokens(feature_map)

    @property
    def depth(self) -> int:
        """The number of blocks."""
        return len(self.blocks)

    def states(self, images: Tensor) -> list[tuple[Tensor, Grid]]:
        """Return the input of the first block and the output of every block, as tokens with their grid."""
        found = [self.stem(images)]
        for block in self.blocks:
            found.append(block(found[-1]))
        return [_as_tokens(feature_map) for feature_map in found]


def _as_tokens(feature_map: Tensor) -> tuple[Tensor, Grid]:
    return feature_map.flatten(2).transpose(1, 2), Grid(feature_map.shape[2], feature_map.shape[3])


class ConditionalPosition(nn.Module):
    """CPE: a depthwise 3 x 3 convolution encodes positions by neighbours and the border (Chu et al., 2021).

    A residual of its own in a block. Prefix tokens get zeros.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = DepthwiseConv2d(width)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        grid = scope.grid
        assert grid is not None, "conditional positions need tokens on a grid"
        return over_map(self.convolution, tokens, grid, prefix=torch.zeros_like(tokens[:, : grid.prefix]))[0]
