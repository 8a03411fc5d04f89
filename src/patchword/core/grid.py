"""The layout of image tokens: height, width and leading tokens."""

from dataclasses import dataclass

import torch
from torch import Tensor

Size = int | tuple[int, int]


def sides(size: Size) -> tuple[int, int]:
    """Return height and width of a size that is given as one number or two."""
    return (size, size) if isinstance(size, int) else (size[0], size[1])


@dataclass(frozen=True)
class Grid:
    """The last height * width tokens are a map, row by row; `prefix` tokens ([CLS], ...) come before them."""

    height: int
    width: int
    prefix: int = 0

    @property
    def tokens(self) -> int:
        """The number of tokens, leading tokens included."""
        return self.prefix + self.height * self.width

    def to_map(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, tokens, width) -> prefix (batch, prefix, width), map (batch, width, rows, columns)"""
        prefix, patches = tokens[:, : self.prefix], tokens[:, self.prefix :]
        return prefix, patches.transpose(1, 2).unflatten(2, (self.height, self.width))

    def to_tokens(self, prefix: Tensor, feature_map: Tensor) -> Tensor:
        """The inverse of `to_map`: (batch, prefix, width), (batch, width, rows, columns) -> (batch, tokens, width)."""
        return torch.cat([prefix, feature_map.flatten(2).transpose(1, 2)], dim=1)
