"""The table of inference fusions: pattern -> fused module.

A rule takes a module and returns a module that runs a fused kernel, or None if its pattern does not match. The fused
module falls back to the original where the inputs do not allow the kernel: other devices, other dtypes, other sizes,
or a gradient that is needed. A rule does not match a module with hooks or with an overridden forward, nor a
subclass of what it knows.
"""

from typing import TypeVar, cast

from torch import nn

from patchword.fusion.attention import FusedAttention
from patchword.fusion.convolution import DepthwiseResidual, FoldedConvNorm, SeparableQKV
from patchword.fusion.mlp import FusedMLP, LinearGelu, fuse_out_proj_mlp
from patchword.fusion.residual_convolution import FusedConvResidual, FusedConvStem
from patchword.fusion.rewrite import Rule, rewritten
from patchword.fusion.stem import ConvStemNorm

RULES: dict[str, Rule] = {
    "conv_stem_norm": ConvStemNorm.of,  # NormedStem(OverlapEmbed)
    "conv_stem": FusedConvStem.of,  # ConvStem of a ResNet
    "conv_residual": FusedConvResidual.of,  # ConvResidual
    "folded_conv_norm": FoldedConvNorm.of,  # ConvNorm(DepthwiseConv2d)
    "separable_qkv": SeparableQKV.of,  # SeparableProjection
    "depthwise_residual": DepthwiseResidual.of,  # Residual(ConditionalPosition)
    "norm_linear": FusedAttention.of,  # Residual(Attention): layer_norm_linear, linear_residual
    "linear_gelu": LinearGelu.of,  # FeedForward
    "fused_mlp": FusedMLP.of,  # Residual(FeedForward)
    "out_proj_mlp": fuse_out_proj_mlp,  # Block(attention, feed_forward)
}

Module = TypeVar("Module", bound=nn.Module)


def fuse(model: nn.Module) -> nn.Module:
    """The model with all rules applied. The given model stays as it is; the parameters are shared."""
    return rewritten(model, RULES)


def fuse_on_gpu(model: Module) -> Module:
    """The fused model if its parameters are on a GPU, else the model itself.

    Without torch.compile, for a few batches: compiling takes longer than it would save.
    """
    parameter = next(model.parameters(), None)
    return cast(Module, fuse(model)) if parameter is not None and parameter.is_cuda else model
