"""Bidirectional feature pyramid (Tan et al., 2020), as in the detection code of Swin: maps are combined from above and
from below, with learned weights."""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.layers.dense.points.conv_norm import conv_norm


class Combination(nn.Module):
    """A weighted mean of maps of one size, then swish and a 3x3 convolution with its norm.

    The weights are made positive by ReLU and divided by their sum plus 1e-4.
    """

    def __init__(self, inputs: int, width: int, groups: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(1, 1, 1, 1, inputs))  # the shape that the authors' files have
        self.output = conv_norm(width, width, 3, groups, relu=False)

    def forward(self, *maps: Tensor) -> Tensor:
        """(batch, width, height, width of the map) each -> the same shape"""
        weights = self.weights.flatten().relu()
        shares = (weights / (weights.sum() + 1e-4)).unbind()
        combined = sum((share * each for share, each in zip(shares, maps, strict=True)), start=maps[0].new_zeros(()))
        return cast(Tensor, self.output(F.silu(combined)))


class BiFpnRound(nn.Module):
    """One pass from the coarsest level to the finest, then one back.

    widths: channels of the levels that come in; those that are not `width` wide get a 1x1 convolution with its norm.
    """

    def __init__(self, widths: Sequence[int], width: int, groups: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(
            nn.Identity() if each == width else conv_norm(each, width, 1, groups, relu=False) for each in widths
        )
        last = len(widths) - 1
        self.top_down = nn.ModuleList(Combination(2, width, groups) for _ in range(last))
        self.bottom_up = nn.ModuleList(
            Combination(2 if level == last - 1 else 3, width, groups) for level in range(last)
        )

    def forward(self, levels: Sequence[Tensor]) -> list[Tensor]:
        """Maps of each level, finest first -> maps of `width` channels of the same sizes"""
        laterals = [layer(each) for layer, each in zip(self.lateral, levels, strict=True)]
        found = list(laterals)
        for level in range(len(found) - 2, -1, -1):
            above = F.interpolate(found[level + 1], size=found[level].shape[-2:], mode="nearest")
            found[level] = self.top_down[level](found[level], above)
        for level, combine in enumerate(self.bottom_up, start=1):
            maps = [F.max_pool2d(found[level - 1], 3, stride=2, padding=1), found[level], laterals[level]]
            found[level] = combine(*maps[: 2 if level == len(found) - 1 else 3])
        return found


class BiFpn(nn.Module):
    """Maps of a backbone -> maps of one width, and extra coarser ones, made by max pooling of the coarsest map.

    widths: channels of the maps of the backbone, finest first. width: channels of every level of the pyramid.
    extra: number of extra levels. rounds: passes in both directions. groups: of group normalization.
    """

    def __init__(self, widths: Sequence[int], width: int, *, extra: int, rounds: int, groups: int) -> None:
        super().__init__()
        self.inputs, self.extra = len(widths), extra
        given = [*widths, *[widths[-1]] * extra]
        self.rounds = nn.ModuleList(
            BiFpnRound([width] * len(given) if number else given, width, groups) for number in range(rounds)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform convolutions."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.xavier_uniform_(layer.weight)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """(batch, widths[i], height, width) per map -> (batch, width, height, width) per level, the extra ones last."""
        levels = list(maps)
        for _ in range(self.extra):
            levels.append(F.max_pool2d(levels[-1], 3, stride=2, padding=1))
        for one in self.rounds:
            levels = one(levels)
        return levels
