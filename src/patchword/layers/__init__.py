"""PARTS: what every family is composed of. A variation is another part, never a flag."""

from patchword.layers.activation import Gelu
from patchword.layers.attention.attention import Attention
from patchword.layers.attention.core import Pattern, ScaledDotProduct
from patchword.layers.attention.partition import Everything, Partition, members
from patchword.layers.attention.position import Position
from patchword.layers.attention.projection import LinearProjection, Projected
from patchword.layers.attention.record import AttentionMap, plain_attention, record_attention
from patchword.layers.block import Block, DropPath, LayerScale, Norm, Residual
from patchword.layers.embedding import LearnedPositions, NoPositions, NoPrefix, Prefix, SinusoidalPositions
from patchword.layers.encoder import Encoder
from patchword.layers.feed_forward import FeedForward
from patchword.layers.heads import ClassHead, DistilledHead, first_token, mean_of_patches
from patchword.layers.patch import PatchEmbed
from patchword.layers.pyramid import Pyramid, Stage

__all__ = [
    "Attention",
    "AttentionMap",
    "Block",
    "ClassHead",
    "DistilledHead",
    "DropPath",
    "Encoder",
    "Everything",
    "FeedForward",
    "Gelu",
    "LayerScale",
    "LearnedPositions",
    "LinearProjection",
    "NoPositions",
    "NoPrefix",
    "Norm",
    "Partition",
    "PatchEmbed",
    "Pattern",
    "Position",
    "Prefix",
    "Projected",
    "Pyramid",
    "Residual",
    "ScaledDotProduct",
    "SinusoidalPositions",
    "Stage",
    "first_token",
    "mean_of_patches",
    "members",
    "plain_attention",
    "record_attention",
]
