"""Entrances: from an image or a feature map to tokens and their grid.

Each tells its `stride` (pixels of its input from one token to the next), its `width`, and the `grid` it makes of an
input's sides. Sides that patches do not divide are padded with zeros, below and on the right; a convolution whose
patches overlap ends where its kernel does not fit any more, as in the authors' code of CvT and CSWin.
"""

from typing import Protocol, cast

import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.kernels.common.availability import is_on_cuda
from patchword.kernels.stem.conv_stem_norm import ConvStemWeights, entrance, has_conv_stem_norm_kernel
from patchword.kernels.stem.patch_merge_norm import has_patch_merge_norm_kernel, patch_merge_norm, side_by_side
from patchword.layers.affine import is_affine
from patchword.layers.watched import has_hooks

_FEW = 4  # channels of an image


class Stem(Protocol):
    stride: int
    width: int

    def grid(self, height: int, width: int) -> Grid: ...

    def __call__(self, feature_map: Tensor) -> tuple[Tensor, Grid]: ...


class PatchEmbed(nn.Module):
    """Cuts a map into patches that do not overlap and projects each to a token.

    The weight has a convolution's shape; since patches do not overlap it is applied as one matrix product, which is
    faster than a strided convolution.
    """

    def __init__(self, channels: int, width: int, patch: int) -> None:
        super().__init__()
        self.channels, self.width, self.patch, self.stride = channels, width, patch, patch
        convolution = nn.Conv2d(channels, width, patch, patch)
        self.weight, self.bias = convolution.weight, convolution.bias

    def extra_repr(self) -> str:
        return f"channels={self.channels}, width={self.width}, patch={self.patch}"

    def grid(self, height: int, width: int) -> Grid:
        return Grid(-(-height // self.patch), -(-width // self.patch))

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        check_channels(feature_map, self.channels)
        feature_map = padded(feature_map, self.patch)
        grid = self.grid(*feature_map.shape[2:])
        cut: Tensor = feature_map.unflatten(3, (grid.width, self.patch)).unflatten(2, (grid.height, self.patch))
        patches = cut.permute(0, 2, 4, 1, 3, 5).reshape(cut.shape[0], grid.tokens, self.weight[0].numel())
        return F.linear(patches, self.weight.flatten(1), self.bias), grid


class OverlapEmbed(nn.Module):
    """Patches that overlap their neighbours: a strided convolution."""

    def __init__(self, channels: int, width: int, kernel: int, stride: int, padding: int) -> None:
        super().__init__()
        self.channels, self.width, self.stride = channels, width, stride
        self.convolution = nn.Conv2d(channels, width, kernel, stride, padding)

    def grid(self, height: int, width: int) -> Grid:
        kernel, padding = self.convolution.kernel_size[0], cast(int, self.convolution.padding[0])
        rows, columns = (max(1, (side + 2 * padding - kernel) // self.stride + 1) for side in (height, width))
        return Grid(rows, columns)

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        feature_map = self._large_enough(feature_map)
        if feature_map.is_cuda and self.channels <= _FEW and _is_plain(self.convolution):
            return self.as_product(feature_map)
        convolved = self.convolution(feature_map)
        return convolved.flatten(2).transpose(1, 2), Grid(convolved.shape[2], convolved.shape[3])

    def _large_enough(self, feature_map: Tensor) -> Tensor:
        """for the kernel"""
        check_channels(feature_map, self.channels)
        kernel, padding = self.convolution.kernel_size[0], cast(int, self.convolution.padding[0])
        below, beside = (max(0, kernel - 2 * padding - side) for side in feature_map.shape[2:])
        return F.pad(feature_map, (0, beside, 0, below)) if below or beside else feature_map

    def normed(self, feature_map: Tensor, norm: nn.Module) -> Tensor | None:
        """the tokens with a norm over each, by a kernel; None where there is none, or where someone watches"""
        part = self.convolution
        if not is_on_cuda(feature_map) or type(self) is not OverlapEmbed or has_hooks(self) or has_hooks(norm):
            return None
        if not _is_plain(part) or part.bias is None or not is_affine(norm):
            return None
        feature_map, padding = self._large_enough(feature_map), cast(int, part.padding[0])
        parts = ConvStemWeights(part.weight, part.bias, norm.weight, norm.bias)
        if not has_conv_stem_norm_kernel(feature_map, parts, self.stride, padding):
            return None
        return entrance(feature_map, parts, self.stride, padding, norm.eps)

    def as_product(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """The same as one matrix product over copied patches. A GPU's convolutions want more channels than an image
        has, and would turn it round first. A tap of zeros makes rows of patches begin where they are read best."""
        convolution, stride = self.convolution, self.stride
        kernel, padding = convolution.kernel_size[0], cast(int, convolution.padding[0])
        more = -kernel % 8
        around = F.pad(feature_map, (padding, padding + more, padding, padding))
        cut = around.unfold(2, kernel, stride).unfold(3, kernel + more, stride)
        grid = Grid(cut.shape[2], cut.shape[3])
        patches = cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
        return F.linear(patches, F.pad(convolution.weight, (0, more)).flatten(1), convolution.bias), grid


def _is_plain(convolution: nn.Module) -> bool:
    return type(convolution) is nn.Conv2d and not has_hooks(convolution)


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
        return self.reduce(self._normed(feature_map)), self.grid(*feature_map.shape[2:])

    def _normed(self, feature_map: Tensor) -> Tensor:
        norm, reduce = self.norm, self.reduce
        if is_on_cuda(feature_map) and is_affine(norm) and type(reduce) is nn.Linear and not has_hooks(norm):
            given = feature_map, norm.weight, norm.bias, reduce.weight
            if has_patch_merge_norm_kernel(*given):
                return patch_merge_norm(*given, norm.eps)
        return cast(Tensor, norm(side_by_side(feature_map)))


class NormedStem(nn.Module):
    """An entrance, then a norm over each token."""

    def __init__(self, patches: Stem, eps: float = 1e-5) -> None:
        super().__init__()
        self.patches, self.stride, self.width = patches, patches.stride, patches.width
        self.norm = nn.LayerNorm(patches.width, eps)

    def grid(self, height: int, width: int) -> Grid:
        return self.patches.grid(height, width)

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        if isinstance(self.patches, OverlapEmbed):
            normed = self.patches.normed(feature_map, self.norm)
            if normed is not None:
                return normed, self.grid(*feature_map.shape[2:])
        tokens, grid = self.patches(feature_map)
        return self.norm(tokens), grid


def overlapping(channels: int, width: int, stride: int, padding: int | None = None) -> NormedStem:
    """The entrance of CvT, CSWin and Pale: a kernel of 7 for stride 4, of 3 for stride 2, and a norm."""
    kernel = 2 * stride - 1
    return NormedStem(OverlapEmbed(channels, width, kernel, stride, kernel // 2 if padding is None else padding))


def padded(feature_map: Tensor, multiple: int) -> Tensor:
    """zeros below and on the right, up to a multiple of a side"""
    below, beside = -feature_map.shape[2] % multiple, -feature_map.shape[3] % multiple
    return F.pad(feature_map, (0, beside, 0, below)) if below or beside else feature_map


def check_channels(feature_map: Tensor, channels: int) -> None:
    if feature_map.ndim != 4 or feature_map.shape[1] != channels:
        raise UserError(
            "the image has the wrong shape",
            expected=f"(batch, {channels}, height, width)",
            got=tuple(feature_map.shape),
            hint="create the model with channels=... to match your images",
        )


def check_divisible(height: int, width: int, patch: int) -> None:
    if height % patch or width % patch:
        fit = [max(patch, round(side / patch) * patch) for side in (height, width)]
        raise UserError(
            f"an image of {height} x {width} cannot be cut into patches of {patch} x {patch}",
            expected=f"sides that {patch} divides",
            hint=f"resize the image to {fit[0]} x {fit[1]}, or choose a patch that divides both sides",
        )
