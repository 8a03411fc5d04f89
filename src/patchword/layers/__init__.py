"""PARTS: what every family is composed of. A variation is another part, never a flag."""

from patchword.layers.activation import Gelu, QuickGelu
from patchword.layers.activation_checkpointing import recompute
from patchword.layers.attention.attention import Attention
from patchword.layers.attention.block_sparse import Blocks
from patchword.layers.attention.cache import Cache
from patchword.layers.attention.core import Pattern, ScaledDotProduct
from patchword.layers.attention.cross_attention import (
    Additive,
    AdditiveProjection,
    FromMemory,
    MemoryProjection,
    MultiplicativeProjection,
)
from patchword.layers.attention.partition import Causal, Everything, Partition, members
from patchword.layers.attention.position import LocalEnhancement, Position, RelativeTable
from patchword.layers.attention.projection import LinearProjection, Projected, ReducedProjection, SeparableProjection
from patchword.layers.attention.recording import (
    Attended,
    AttentionMap,
    follow_attention,
    plain_attention,
    record_attention,
)
from patchword.layers.attention.relative_vectors import RelativeVectors
from patchword.layers.attention.windows import Interlaced, Windows
from patchword.layers.block import Block, LayerScale, Norm, Residual, pre_norm_block
from patchword.layers.convolution.blocks import (
    ConditionalPosition,
    ConvNorm,
    ConvResidual,
    ConvStage,
    ConvStem,
    SqueezeExcite,
    shortcut,
)
from patchword.layers.convolution.stem import NormedEntrance, OverlapEmbed, PatchEmbed, PatchMerge, overlapping
from patchword.layers.drop_path import DropPath, rising
from patchword.layers.embedding.absolute import LearnedPositions, NoPositions, NoPrefix, Prefix, SinusoidalPositions
from patchword.layers.embedding.characters import CharacterEmbedding
from patchword.layers.embedding.floater import FloaterPlaces, FloaterPositions, Flow
from patchword.layers.embedding.fourier import FourierFeatures, FourierPlaces, FourierPositions
from patchword.layers.embedding.image_position import SCHEMES, Scheme, SchemeName
from patchword.layers.embedding.sinusoids import NoPlaces, Sinusoids
from patchword.layers.embedding.text_position import TEXT_SCHEMES, TextScheme, TextSchemeName
from patchword.layers.encoder import Encoder
from patchword.layers.feed_forward import FeedForward
from patchword.layers.heads.image import ClassHead, DistilledHead, first_token, heads_apart, mean_of_patches
from patchword.layers.heads.text import (
    FirstToken,
    Guesses,
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
    guesses_of,
)
from patchword.layers.model import Model
from patchword.layers.pyramid import Backbone, Pyramid, Stage
from patchword.layers.recurrent.clipped_lstm import ClippedLstm, TwoWayEncoder
from patchword.layers.recurrent.highway import Highway
from patchword.layers.recurrent.lstm import BothDirections, Bridge, Look, RecurrentTranslator
from patchword.layers.text.bottleneck import Bottleneck, BottleneckProjection, NoNorm, PartlyTied, Trigram
from patchword.layers.text.encoder_decoder import EncoderDecoder, Entrance, Memory, Translator
from patchword.layers.text.frozen_vectors import (
    Frozen,
    LargestPool,
    OverVectors,
    VectorEntrance,
    WordByWord,
)
from patchword.layers.text.model import TextEmbedding, TextModel
from patchword.layers.text.scalar_mix import LastLayer, ScalarMix
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
    "Guesses",
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
    "guesses_of",
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
