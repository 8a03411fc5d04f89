"""Stems: from an image or a feature map to tokens and their grid.

Each has a `stride` (pixels of its input from one token to the next), a `width`, and a `grid` method that returns the
grid of an input's sides. Sides that patches do not divide are padded with zeros, below and on the right; a convolution
whose patches overlap ends where its kernel does not fit any more, as in the authors' code of CvT and CSWin.
"""

from typing import Protocol, cast

import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid, Size, sides
from patchword.kernels.stem.image_conv import image_conv2d


class Stem(Protocol):
    stride: int
    width: int

    def grid(self, height: int, width: int) -> Grid: ...

    def __call__(self, feature_map: Tensor) -> tuple[Tensor, Grid]: ...


class PatchEmbed(nn.Module):
    """Cuts a map into patches that do not overlap and projects each patch to a token.

    The weight has a convolution's shape; since patches do not overlap it is applied as one matrix product, which is
    faster than a strided convolution. patch: one side, or (height, width); the stride is that of the rows.
    """

    def __init__(self, channels: int, width: int, patch: Size) -> None:
        super().__init__()
        self.channels, self.width, self.patch, self.stride = channels, width, patch, sides(patch)[0]
        convolution = nn.Conv2d(channels, width, patch, patch)
        self.weight, self.bias = convolution.weight, convolution.bias

    def extra_repr(self) -> str:
        return f"channels={self.channels}, width={self.width}, patch={self.patch}"

    def grid(self, height: int, width: int) -> Grid:
        rows, columns = sides(self.patch)
        return Grid(-(-height // rows), -(-width // columns))

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        check_channels(feature_map, self.channels)
        feature_map = padded(feature_map, self.patch)
        patches = cut_patches(feature_map, self.patch)
        return F.linear(patches, self.weight.flatten(1), self.bias), self.grid(*feature_map.shape[2:])


def cut_patches(feature_map: Tensor, patch: Size) -> Tensor:
    """Cuts a map whose sides those of a patch divide into patches that do not overlap, row by row.

    (batch, channels, height, width) -> (batch, patches, channels * height of a patch * width of a patch)
    """
    (batch, channels, height, width), (high, wide) = feature_map.shape, sides(patch)
    rows, columns = height // high, width // wide
    cut: Tensor = feature_map.unflatten(3, (columns, wide)).unflatten(2, (rows, high))
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(batch, rows * columns, channels * high * wide)


def join_patches(patches: Tensor, patch: Size, grid: Grid) -> Tensor:
    """The inverse of `cut_patches`: (batch, patches, pixels of a patch) -> (batch, channels, height, width)"""
    cut: Tensor = patches.unflatten(2, (-1, *sides(patch))).unflatten(1, (grid.height, grid.width))
    return cut.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)


class ImageConv2d(nn.Conv2d):
    """A convolution that runs as a matrix product where that is faster: on a GPU, over the few channels of an image."""

    def forward(self, feature_map: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, width, rows, columns)"""
        padding = cast(int, self.padding[0])
        return image_conv2d(feature_map, self.weight, self.bias, self.stride[0], padding)


class OverlapEmbed(nn.Module):
    """Patches that overlap their neighbours: a strided convolution."""

    def __init__(self, channels: int, width: int, kernel: int, stride: int, padding: int) -> None:
        super().__init__()
        self.channels, self.width, self.stride = channels, width, stride
        self.convolution = ImageConv2d(channels, width, kernel, stride, padding)

    def grid(self, height: int, width: int) -> Grid:
        kernel, padding = self.convolution.kernel_size[0], cast(int, self.convolution.padding[0])
        rows, columns = (max(1, (side + 2 * padding - kernel) // self.stride + 1) for side in (height, width))
        return Grid(rows, columns)

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        convolved = self.convolution(self.padded_to_kernel(feature_map))
        return convolved.flatten(2).transpose(1, 2), Grid(convolved.shape[2], convolved.shape[3])

    def padded_to_kernel(self, feature_map: Tensor) -> Tensor:
        """Pads a map that is smaller than the convolution's kernel."""
        check_channels(feature_map, self.channels)
        kernel, padding = self.convolution.kernel_size[0], cast(int, self.convolution.padding[0])
        below, beside = (max(0, kernel - 2 * padding - side) for side in feature_map.shape[2:])
        return F.pad(feature_map, (0, beside, 0, below)) if below or beside else feature_map


def side_by_side(feature_map: Tensor) -> Tensor:
    """Concatenates the four tokens of each 2 x 2 patch along the channels.

    (batch, channels, height, width), of even sides -> (batch, height / 2 * width / 2, 4 * channels)
    """
    cut: Tensor = feature_map.unflatten(3, (-1, 2)).unflatten(2, (-1, 2))
    return cut.permute(0, 2, 4, 5, 3, 1).flatten(3).flatten(1, 2)


class PatchMerge(nn.Module):
    """Swin: four neighbours become one token of twice the width (Liu et al., 2021, 3.1).

    Of the four, the row changes fastest: (0, 0), (1, 0), (0, 1), (1, 1).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels, self.width, self.stride = channels, 2 * channels, 2
        self.norm = nn.LayerNorm(4 * channels)
        self.reduce = nn.Linear(4 * channels, 2 * channels, bias=False)

    def grid(self, height: int, width: int) -> Grid:
        return Grid(-(-height // 2), -(-width // 2))

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, 2 * channels), grid"""
        feature_map = padded(feature_map, 2)
        return self.reduce(self.norm(side_by_side(feature_map))), self.grid(*feature_map.shape[2:])


class NormedStem(nn.Module):
    """A stem, then a norm over each token."""

    def __init__(self, patches: Stem, eps: float = 1e-5) -> None:
        super().__init__()
        self.patches, self.stride, self.width = patches, patches.stride, patches.width
        self.norm = nn.LayerNorm(patches.width, eps)

    def grid(self, height: int, width: int) -> Grid:
        return self.patches.grid(height, width)

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        tokens, grid = self.patches(feature_map)
        return self.norm(tokens), grid


def overlapping(channels: int, width: int, stride: int, padding: int | None = None) -> NormedStem:
    """The stem of CvT, CSWin and Pale: a kernel of 7 for stride 4, of 3 for stride 2, and a norm."""
    kernel = 2 * stride - 1
    return NormedStem(OverlapEmbed(channels, width, kernel, stride, kernel // 2 if padding is None else padding))


def padded(feature_map: Tensor, multiple: Size) -> Tensor:
    """Pads with zeros below and on the right until each side is a multiple of this."""
    rows, columns = sides(multiple)
    below, beside = -feature_map.shape[2] % rows, -feature_map.shape[3] % columns
    return F.pad(feature_map, (0, beside, 0, below)) if below or beside else feature_map


def check_channels(feature_map: Tensor, channels: int) -> None:
    if feature_map.ndim != 4 or feature_map.shape[1] != channels:
        raise UserError(
            "the image has the wrong shape",
            expected=f"(batch, {channels}, height, width)",
            got=tuple(feature_map.shape),
            hint="create the model with channels=... to match your images",
        )


def check_divisible(height: int, width: int, patch: Size) -> None:
    high, wide = sides(patch)
    if height % high or width % wide:
        pairs = ((height, high), (width, wide))
        fit = [max(each, round(side / each) * each) for side, each in pairs]
        raise UserError(
            f"an image of {height} x {width} cannot be cut into patches of {high} x {wide}",
            expected=f"sides that {high} divides" if high == wide else f"sides that {high} and {wide} divide",
            hint=f"resize the image to {fit[0]} x {fit[1]}, or choose a patch that divides both sides",
        )
