"""The cost rule of each part. A part without a rule is an error, not a zero.

A rule gives the products and the parameters of a part as formulas.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from patchword.analysis.cost.detection_rules import (
    combination,
    deformable,
    dynamic,
    fixed_batch_norm,
    group_norm,
    learned_boxes,
    transposed,
)
from patchword.analysis.cost.line import Call, Kind, Line
from patchword.analysis.cost.part_rules.attention import additive, attention
from patchword.analysis.cost.part_rules.convolution import convolution, filters, patches
from patchword.analysis.cost.part_rules.linear import TEXT_HEADS, linear, projection
from patchword.analysis.cost.part_rules.position import flow, fourier, leading, offsets, positions, relative_vectors
from patchword.analysis.cost.part_rules.scale import batch_norm, no_norm, norm, scale
from patchword.analysis.cost.part_rules.text import lstm, mixture, partly_tied, recurrent, table, words
from patchword.layers import (
    Additive,
    ClippedLstm,
    DropPath,
    FirstToken,
    Flow,
    FourierFeatures,
    FromMemory,
    Gelu,
    LastLayer,
    LastToken,
    LayerScale,
    LearnedPositions,
    LinearProjection,
    MaxPool,
    MeanPool,
    NoNorm,
    NoPositions,
    NoPrefix,
    NoTextPositions,
    PartlyTied,
    PatchEmbed,
    Position,
    Prefix,
    QuickGelu,
    RelativeTable,
    RelativeVectors,
    ScalarMix,
    ScaledDotProduct,
    SinusoidalPositions,
    Sinusoids,
    TiedLinear,
    Tokens,
    WordByWord,
)
from patchword.layers.convolution.depthwise import DepthwiseConv2d
from patchword.layers.convolution.stem import ImageConv2d
from patchword.layers.dense.backbones import FixedBatchNorm2d
from patchword.layers.dense.points.bifpn import Combination
from patchword.layers.dense.points.reppoints_head import DeformableConv
from patchword.layers.dense.queries.dynamic_conv import DynamicConv
from patchword.layers.dense.queries.sine_positions import SinePositions
from patchword.layers.dense.queries.sparse_detector import SparseDetector

__all__ = ["FREE", "OWN_RULES", "RULES", "TEXT_HEADS", "Call", "Kind", "Line", "Rule"]

Rule = Callable[[str, Any, Call], list[Line]]

# Parts without parameters and matrix products.
FREE = (
    nn.Identity,
    nn.Sequential,  # an empty one
    nn.ModuleList,
    nn.Dropout,
    nn.Dropout2d,
    nn.GELU,
    nn.ReLU,
    nn.MaxPool2d,
    Gelu,
    QuickGelu,
    DropPath,
    Position,
    NoPrefix,
    NoPositions,
    SinusoidalPositions,
    NoTextPositions,
    Sinusoids,
    FirstToken,
    LastLayer,
    LastToken,
    MaxPool,
    WordByWord,
    MeanPool,
    Tokens,
    nn.Tanh,
    FromMemory,
    SinePositions,
)

RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    LinearProjection: projection,
    ScaledDotProduct: attention,
    Additive: additive,
    nn.LSTM: lstm,
    PatchEmbed: patches,
    nn.Conv1d: filters,
    nn.Conv2d: convolution,
    DepthwiseConv2d: convolution,
    ImageConv2d: convolution,
    nn.LayerNorm: norm,
    Prefix: leading,
    LearnedPositions: positions,
    LayerScale: scale,
    nn.BatchNorm2d: batch_norm,
    FixedBatchNorm2d: fixed_batch_norm,
    nn.GroupNorm: group_norm,
    nn.ConvTranspose2d: transposed,
    DeformableConv: deformable,
    RelativeTable: offsets,
    RelativeVectors: relative_vectors,
    FourierFeatures: fourier,
    Flow: flow,
    nn.Embedding: table,
    TiedLinear: words,
    PartlyTied: partly_tied,
    ClippedLstm: recurrent,
    ScalarMix: mixture,
    NoNorm: no_norm,
}

# Parts that have products or parameters of their own besides those of their children.
OWN_RULES: dict[type[nn.Module], Rule] = {
    DynamicConv: dynamic,
    SparseDetector: learned_boxes,
    Combination: combination,
}
