"""Entrances: from an image or a feature map to tokens and their grid."""

import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid


class PatchEmbed(nn.Module):
    """Cuts a map into patches that do not overlap and projects each to a token.

    The weight has a convolution's shape; since patches do not overlap it is applied as one matrix product, which is
    faster than a strided convolution.
    """

    def __init__(self, channels: int, width: int, patch: int) -> None:
        super().__init__()
        self.channels, self.patch = channels, patch
        convolution = nn.Conv2d(channels, width, patch, patch)
        self.weight, self.bias = convolution.weight, convolution.bias

    def extra_repr(self) -> str:
        return f"channels={self.channels}, width={len(self.weight)}, patch={self.patch}"

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        self._check(feature_map)
        batch, channels, height, width = feature_map.shape
        grid = Grid(height // self.patch, width // self.patch)
        cut = feature_map.view(batch, channels, grid.height, self.patch, grid.width, self.patch)
        patches = cut.permute(0, 2, 4, 1, 3, 5).reshape(batch, grid.tokens, -1)
        return F.linear(patches, self.weight.flatten(1), self.bias), grid

    def _check(self, feature_map: Tensor) -> None:
        if feature_map.ndim != 4 or feature_map.shape[1] != self.channels:
            raise UserError(
                "the image has the wrong shape",
                expected=f"(batch, {self.channels}, height, width)",
                got=tuple(feature_map.shape),
                hint="create the model with channels=... to match your images",
            )
        check_divisible(feature_map.shape[2], feature_map.shape[3], self.patch)


def check_divisible(height: int, width: int, patch: int) -> None:
    if height % patch or width % patch:
        fit = [max(patch, round(side / patch) * patch) for side in (height, width)]
        raise UserError(
            f"an image of {height} x {width} cannot be cut into patches of {patch} x {patch}",
            expected=f"sides that {patch} divides",
            hint=f"resize the image to {fit[0]} x {fit[1]}, or choose a patch that divides both sides",
        )
