"""Fused stems: the convolution of an image with its norm."""

from typing import cast

from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.fusion.patterns import Fused, is_affine_norm, is_exactly
from patchword.kernels.stem.conv_stem_norm import conv_stem_norm, has_conv_stem_norm_kernel
from patchword.kernels.stem.reference import ConvStemWeights
from patchword.layers.convolution.stem import ImageConv2d, NormedStem, OverlapEmbed


class ConvStemNorm(Fused):
    """A strided convolution over an image and the norm of its tokens as one kernel."""

    def __init__(self, original: NormedStem) -> None:
        super().__init__()
        self.original: NormedStem = original

    @classmethod
    def of(cls, module: nn.Module) -> "ConvStemNorm | None":
        if not isinstance(module, NormedStem) or not is_exactly(module, NormedStem):
            return None
        patches = module.patches
        if not isinstance(patches, OverlapEmbed) or not is_exactly(patches, OverlapEmbed):
            return None
        known = is_exactly(patches.convolution, ImageConv2d, nn.Conv2d) and patches.convolution.bias is not None
        return cls(module) if known and is_affine_norm(module.norm) else None

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        patches, norm = cast(OverlapEmbed, self.original.patches), self.original.norm
        convolution, stride = patches.convolution, patches.stride
        assert convolution.bias is not None, "the rule matches convolutions with a bias"
        image, padding = patches.padded_to_kernel(feature_map), cast(int, convolution.padding[0])
        weights = ConvStemWeights(convolution.weight, convolution.bias, norm.weight, norm.bias)
        if not has_conv_stem_norm_kernel(image, weights, stride, padding):
            return cast(tuple[Tensor, Grid], self.original(feature_map))
        tokens = conv_stem_norm(image, weights, stride, padding, norm.eps)
        return tokens, patches.grid(*feature_map.shape[2:])
