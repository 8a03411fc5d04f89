"""Swin as in its authors' dense code: the map is padded before attention, and tokens attend to the padding."""

from dataclasses import replace
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.layers.attention.attention import Attention
from patchword.layers.attention.pattern import Pattern
from patchword.layers.attention.windows import Windows
from patchword.layers.block import Residual
from patchword.layers.pyramid import Backbone


class PaddedAttention(nn.Module):
    """Attention on a map that is padded with zeros to a multiple of the window, at the bottom and on the right.

    The padding has queries, keys and values: those of a zero, which are the biases. Its outputs are removed.
    """

    def __init__(self, attention: Attention, window: tuple[int, int]) -> None:
        super().__init__()
        self.attention, self.window = attention, window

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        grid = scope.grid
        assert grid is not None, "windows need tokens on a grid"
        down, right = -grid.height % self.window[0], -grid.width % self.window[1]
        if not (down or right):
            return cast(Tensor, self.attention(tokens, scope))
        wide = replace(grid, height=grid.height + down, width=grid.width + right)
        prefix, feature_map = grid.to_map(tokens)
        found = self.attention(
            wide.to_tokens(prefix, F.pad(feature_map, (0, right, 0, down))), replace(scope, grid=wide)
        )
        prefix, feature_map = wide.to_map(found)
        return grid.to_tokens(prefix, feature_map[:, :, : grid.height, : grid.width])


def has_windows(backbone: Backbone) -> bool:
    """True if all attention of the backbone is within windows of a fixed height and width, as in Swin."""
    patterns = [module for module in backbone.modules() if isinstance(module, Pattern)]
    windows = [each.partition for each in patterns if isinstance(each.partition, Windows)]
    fixed = [each for each in windows if each.height is not None and each.width is not None]
    return len(fixed) == len(patterns) > 0


def attend_to_padding(backbone: Backbone) -> None:
    """Change the windows of a Swin to those of its authors' dense code, with the same weights.

    The padding of the map takes part in attention, and windows are shifted in a map of one window, too.
    """
    for residual in [module for module in backbone.modules() if isinstance(module, Residual)]:
        attention = residual.sublayer
        if not isinstance(attention, Attention):
            continue
        pattern = cast(Pattern, attention.patterns[0])
        windows = pattern.partition
        assert isinstance(windows, Windows), "a Swin has windows"
        window = windows.height, windows.width
        assert window[0] is not None, "windows have a height"
        assert window[1] is not None, "windows have a width"
        pattern.partition = replace(windows, shift_single=True)
        residual.sublayer = PaddedAttention(attention, (window[0], window[1]))
