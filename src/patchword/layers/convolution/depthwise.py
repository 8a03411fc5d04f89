"""Depthwise convolutions of 3 x 3 over a map whose tokens are stored row by row."""

from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.kernels.depthwise_conv.operation import depthwise_conv2d


class DepthwiseConv2d(nn.Conv2d):
    """A 3 x 3 convolution of each channel by itself, with zeros around the map.

    A map whose channels are stored last, as tokens are, runs by a kernel where there is one.
    """

    def __init__(self, width: int, bias: bool = True) -> None:
        super().__init__(width, width, 3, padding=1, groups=width, bias=bias)

    def forward(self, feature_map: Tensor) -> Tensor:
        """(batch, width, rows, columns) -> (batch, width, rows, columns)"""
        return depthwise_conv2d(feature_map, self.weight, self.bias)


def over_map(module: nn.Module, tokens: Tensor, grid: Grid, prefix: Tensor | None = None) -> tuple[Tensor, Grid]:
    """Runs a module over the map of the tokens: (batch, tokens, width) -> (batch, tokens, width), and the new grid.

    prefix: what replaces the prefix tokens, which by default stay as they are
    """
    before, feature_map = grid.to_map(tokens)
    feature_map = module(feature_map)
    grid = Grid(feature_map.shape[2], feature_map.shape[3], grid.prefix)
    if not grid.prefix:  # nothing to concatenate: no copy
        return feature_map.flatten(2).transpose(1, 2), grid
    return grid.to_tokens(before if prefix is None else prefix, feature_map), grid
