"""PARTS: what every family is composed of. A variation is another part, never a flag."""

from patchword.layers.activation import Gelu, QuickGelu
from patchword.layers.attention.attention import Attention
from patchword.layers.attention.blocks import Blocks
from patchword.layers.attention.cache import Cache
from patchword.layers.attention.core import Pattern, ScaledDotProduct
from patchword.layers.attention.memory import (
    Additive,
    AdditiveProjection,
    FromMemory,
    MemoryProjection,
    MultiplicativeProjection,
)
from patchword.layers.attention.partition import Causal, Everything, Partition, members
from patchword.layers.attention.position import LocalEnhancement, Position, RelativeTable
from patchword.layers.attention.projection import LinearProjection, Projected, ReducedProjection, SeparableProjection
from patchword.layers.attention.record import (
    Attended,
    AttentionMap,
    follow_attention,
    plain_attention,
    record_attention,
)
from patchword.layers.attention.rectangles import Interlaced, Windows
from patchword.layers.attention.shaw import RelativeVectors
from patchword.layers.block import Block, LayerScale, Norm, Residual, pre_norm_block
from patchword.layers.bottleneck import Bottleneck, BottleneckProjection, NoNorm, PartlyTied, Trigram
from patchword.layers.characters import CharacterEmbedding
from patchword.layers.clipped_lstm import ClippedLstm, TwoWayEncoder
from patchword.layers.convolution import (
    ConditionalPosition,
    ConvNorm,
    ConvResidual,
    ConvStage,
    ConvStem,
    SqueezeExcite,
    shortcut,
)
from patchword.layers.drop_path import DropPath, rising
from patchword.layers.embedding import LearnedPositions, NoPositions, NoPrefix, Prefix, SinusoidalPositions
from patchword.layers.encoder import Encoder
from patchword.layers.feed_forward import FeedForward
from patchword.layers.floater import FloaterPlaces, FloaterPositions, Flow
from patchword.layers.fourier import FourierFeatures, FourierPlaces, FourierPositions
from patchword.layers.heads import ClassHead, DistilledHead, first_token, heads_apart, mean_of_patches
from patchword.layers.highway import Highway
from patchword.layers.model import Model
from patchword.layers.over_vectors import (
    Frozen,
    LargestPool,
    OverVectors,
    VectorEntrance,
    WordByWord,
)
from patchword.layers.patch import NormedEntrance, OverlapEmbed, PatchEmbed, PatchMerge, overlapping
from patchword.layers.positions import NoPlaces, Sinusoids
from patchword.layers.pyramid import Backbone, Pyramid, Stage
from patchword.layers.recompute import recompute
from patchword.layers.recurrent import BothDirections, Bridge, Look, RecurrentTranslator
from patchword.layers.scalar_mix import LastLayer, ScalarMix
from patchword.layers.scheme import SCHEMES, Scheme, SchemeName
from patchword.layers.seq2seq import EncoderDecoder, Entrance, Memory, Translator
from patchword.layers.text import TextEmbedding, TextModel
from patchword.layers.text_heads import (
    FirstToken,
    LastToken,
    MeanPool,
    PlainWords,
    PooledHead,
    Pooler,
    PretrainingHead,
    SentenceHead,
    TiedLinear,
    TokenHead,
    Tokens,
    VectorHead,
    WordHead,
    Words,
)
from patchword.layers.text_scheme import TEXT_SCHEMES, TextScheme, TextSchemeName
from patchword.layers.token_mixing import TokenMixing

__all__ = [
    "SCHEMES",
    "TEXT_SCHEMES",
    "Additive",
    "AdditiveProjection",
    "Attended",
    "Attention",
    "AttentionMap",
    "Backbone",
    "Block",
    "Blocks",
    "BothDirections",
    "Bottleneck",
    "BottleneckProjection",
    "Bridge",
    "Cache",
    "Causal",
    "CharacterEmbedding",
    "ClassHead",
    "ClippedLstm",
    "ConditionalPosition",
    "ConvNorm",
    "ConvResidual",
    "ConvStage",
    "ConvStem",
    "DistilledHead",
    "DropPath",
    "Encoder",
    "EncoderDecoder",
    "Entrance",
    "Everything",
    "FeedForward",
    "FirstToken",
    "FloaterPlaces",
    "FloaterPositions",
    "Flow",
    "FourierFeatures",
    "FourierPlaces",
    "FourierPositions",
    "FromMemory",
    "Frozen",
    "Gelu",
    "Highway",
    "Interlaced",
    "LargestPool",
    "LastLayer",
    "LastToken",
    "LayerScale",
    "LearnedPositions",
    "LinearProjection",
    "LocalEnhancement",
    "Look",
    "MeanPool",
    "Memory",
    "MemoryProjection",
    "Model",
    "MultiplicativeProjection",
    "NoNorm",
    "NoPlaces",
    "NoPositions",
    "NoPrefix",
    "Norm",
    "NormedEntrance",
    "OverVectors",
    "OverlapEmbed",
    "Partition",
    "PartlyTied",
    "PatchEmbed",
    "PatchMerge",
    "Pattern",
    "PlainWords",
    "PooledHead",
    "Pooler",
    "Position",
    "Prefix",
    "PretrainingHead",
    "Projected",
    "Pyramid",
    "QuickGelu",
    "RecurrentTranslator",
    "ReducedProjection",
    "RelativeTable",
    "RelativeVectors",
    "Residual",
    "ScalarMix",
    "ScaledDotProduct",
    "Scheme",
    "SchemeName",
    "SentenceHead",
    "SeparableProjection",
    "SinusoidalPositions",
    "Sinusoids",
    "SqueezeExcite",
    "Stage",
    "TextEmbedding",
    "TextModel",
    "TextScheme",
    "TextSchemeName",
    "TiedLinear",
    "TokenHead",
    "TokenMixing",
    "Tokens",
    "Translator",
    "Trigram",
    "TwoWayEncoder",
    "VectorEntrance",
    "VectorHead",
    "Windows",
    "WordByWord",
    "WordHead",
    "Words",
    "first_token",
    "follow_attention",
    "heads_apart",
    "mean_of_patches",
    "members",
    "overlapping",
    "plain_attention",
    "pre_norm_block",
    "recompute",
    "record_attention",
    "rising",
    "shortcut",
]
