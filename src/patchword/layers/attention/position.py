"""Position inside attention: it can change queries and keys, the scores, the weighted sum, or the output."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.layers.attention.kernel_support import KernelSupport


class Position(KernelSupport, nn.Module, kernels=["window", "dense", "varlen"]):
    """No position; a position encoding overrides the methods it needs.

    query, key, value, attended: (batch * groups, heads, tokens, head width). `inner` is the grid of one group.
    reads_weights: it overrides `mix`, which needs the attention weights, so that no fused kernel can run.
    """

    reads_weights = False

    def rotate(self, query: Tensor, key: Tensor, inner: Grid | None) -> tuple[Tensor, Tensor]:
        """Changes queries and keys before the scores."""
        return query, key

    def bias(self, query: Tensor, key: Tensor, inner: Grid | None) -> Tensor | None:
        """Returns what is added to the scores; broadcasts to (batch * groups, heads, queries, keys)."""
        return None

    def mix(self, weights: Tensor, value: Tensor, inner: Grid | None) -> Tensor:
        """Returns the weighted sum of the values; weights: (batch * groups, heads, queries, keys)"""
        return weights @ value

    def enhance(self, attended: Tensor, value: Tensor, inner: Grid | None) -> Tensor:
        """Changes the output."""
        return attended


class RelativeTable(Position, kernels=["window"]):
    """A learned bias per offset between two tokens of a group and per head (Liu et al., 2021, equation 4).

    For a group of another shape the table is resized as an image of offsets. Leading tokens get no bias.
    """

    def __init__(self, heads: int, window: Grid) -> None:
        super().__init__()
        self.window = window
        self.table = nn.Parameter(torch.zeros(offsets(window.height) * offsets(window.width), heads))

    def extra_repr(self) -> str:
        return f"window={self.window.height} x {self.window.width}, heads={self.table.shape[1]}"

    def bias(self, query: Tensor, key: Tensor, inner: Grid | None) -> Tensor:
        """(heads, tokens, tokens)"""
        assert inner is not None, "relative positions need tokens on a grid"
        table = resize_offsets(self.table, self.window, inner)
        image: Tensor = table.unflatten(0, (offsets(inner.height), offsets(inner.width)))
        # Entry [row, column, head, i, j] of the sliding view is the offset (row + i, column + j); keys are reversed.
        sliding = image.unfold(0, inner.height, 1).unfold(1, inner.width, 1).flip(-2, -1)
        biases = sliding.permute(2, 0, 1, 3, 4).reshape(-1, inner.height * inner.width, inner.height * inner.width)
        return F.pad(biases, (inner.prefix, 0, inner.prefix, 0)) if inner.prefix else biases


def offsets(side: int) -> int:
    """Returns the number of different offsets between two positions along a side."""
    return 2 * side - 1


def resize_offsets(table: Tensor, old: Grid, new: Grid) -> Tensor:
    """Resizes a table, (old offsets, heads) -> (new offsets, heads), bicubically as the Swin authors do."""
    if (old.height, old.width) == (new.height, new.width):
        return table
    image = table.t().unflatten(1, (offsets(old.height), offsets(old.width)))
    size = (offsets(new.height), offsets(new.width))
    resized = F.interpolate(image[None].float(), size=size, mode="bicubic", align_corners=False)
    return resized[0].flatten(1).t().to(table.dtype)


class LocalEnhancement(Position, kernels=["window"]):
    """LePE: adds a depthwise 3 x 3 convolution of the values inside their group (Dong et al., 2021, 3.2)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        if width < 1:
            raise UserError("local positions (LePE)", expected="a channel or more in each direction", got="none")
        self.convolution = nn.Conv2d(width, width, 3, padding=1, groups=width)

    def enhance(self, attended: Tensor, value: Tensor, inner: Grid | None) -> Tensor:
        assert inner is not None, "local enhancement needs tokens on a grid"
        heads = value.shape[1]
        _, feature_map = inner.to_map(value.transpose(1, 2).flatten(2))
        local = self.convolution(feature_map).flatten(2).unflatten(1, (heads, -1)).transpose(2, 3)
        enhanced: Tensor = attended + (F.pad(local, (0, 0, inner.prefix, 0)) if inner.prefix else local)
        return enhanced
