"""PARTS: the layers from which every model family is built. A variation is another layer, never a flag.

`POSITIONS` and `TEXT_POSITIONS` are the position encodings that a config's field `position` selects by name, for image
models (`ImagePositionName` -> `ImagePosition`) and for text models (`TextPositionName` -> `TextPosition`).
"""

from patchword.layers.activation import Gelu, QuickGelu
from patchword.layers.activation_checkpointing import checkpoint_activations
from patchword.layers.attention.attention import Attention
from patchword.layers.attention.block_sparse import BlockSparse
from patchword.layers.attention.cache import Cache
from patchword.layers.attention.core import Pattern, ScaledDotProduct
from patchword.layers.attention.cross_attention import (
    Additive,
    AdditiveProjection,
    FromMemory,
    MemoryProjection,
    MultiplicativeProjection,
)
from patchword.layers.attention.partition import Causal, Full, Partition, members
from patchword.layers.attention.position import LocalEnhancement, Position, RelativeTable
from patchword.layers.attention.projection import LinearProjection, Projected, ReducedProjection, SeparableProjection
from patchword.layers.attention.recording import (
    Attended,
    AttentionMap,
    follow_attention,
    record_attention,
    reference_attention,
)
from patchword.layers.attention.relative_vectors import RelativeVectors
from patchword.layers.attention.windows import Interlaced, Windows
from patchword.layers.block import Block, Norm, Residual, pre_norm_block
from patchword.layers.convolution.blocks import (
    ConditionalPosition,
    ConvNorm,
    ConvResidual,
    ConvStage,
    ConvStem,
    SqueezeExcite,
    shortcut,
)
from patchword.layers.convolution.stem import NormedStem, OverlapEmbed, PatchEmbed, PatchMerge, overlapping
from patchword.layers.drop_path import DropPath, drop_path_rates
from patchword.layers.embedding.absolute import LearnedPositions, NoPositions, NoPrefix, Prefix, SinusoidalPositions
from patchword.layers.embedding.characters import CharacterEmbedding
from patchword.layers.embedding.floater import FloaterPositions, FloaterTextPositions, Flow
from patchword.layers.embedding.fourier import FourierFeatures, FourierPositions, FourierTextPositions
from patchword.layers.embedding.image_position import POSITIONS, ImagePosition, ImagePositionName
from patchword.layers.embedding.sinusoids import NoTextPositions, Sinusoids
from patchword.layers.embedding.text_position import TEXT_POSITIONS, TextPosition, TextPositionName
from patchword.layers.encoder import Encoder
from patchword.layers.feed_forward import FeedForward
from patchword.layers.heads.image import ClassHead, DistilledHead, first_token, mean_of_patches, separate_heads
from patchword.layers.heads.text import (
    EmbeddingHead,
    FirstToken,
    LastToken,
    LMHead,
    MeanPool,
    MLMTransform,
    NoTransform,
    PooledHead,
    Pooler,
    PretrainingHead,
    SequenceHead,
    TiedLinear,
    TokenClassificationHead,
    TokenLosses,
    Tokens,
    token_losses,
)
from patchword.layers.layer_scale import LayerScale
from patchword.layers.model import Model
from patchword.layers.pyramid import Backbone, Pyramid, Stage
from patchword.layers.recurrent.clipped_lstm import BidirectionalEncoder, ClippedLstm
from patchword.layers.recurrent.highway import Highway
from patchword.layers.recurrent.lstm import BidirectionalLstm, Bridge, MemoryAttention, RecurrentTranslator
from patchword.layers.text.bottleneck import Bottleneck, BottleneckProjection, NoNorm, PartlyTied, Trigram
from patchword.layers.text.encoder_decoder import EncoderDecoder, Memory, TokenEmbedding, Translator
from patchword.layers.text.frozen_vectors import (
    Frozen,
    FrozenVectorModel,
    MaxPool,
    VectorEmbedding,
    WordByWord,
)
from patchword.layers.text.model import TextEmbedding, TextModel
from patchword.layers.text.scalar_mix import LastLayer, ScalarMix
from patchword.layers.token_mixing import TokenMixing

__all__ = [
    "POSITIONS",
    "TEXT_POSITIONS",
    "Additive",
    "AdditiveProjection",
    "Attended",
    "Attention",
    "AttentionMap",
    "Backbone",
    "BidirectionalEncoder",
    "BidirectionalLstm",
    "Block",
    "BlockSparse",
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
    "EmbeddingHead",
    "Encoder",
    "EncoderDecoder",
    "FeedForward",
    "FirstToken",
    "FloaterPositions",
    "FloaterTextPositions",
    "Flow",
    "FourierFeatures",
    "FourierPositions",
    "FourierTextPositions",
    "FromMemory",
    "Frozen",
    "FrozenVectorModel",
    "Full",
    "Gelu",
    "Highway",
    "ImagePosition",
    "ImagePositionName",
    "Interlaced",
    "LMHead",
    "LastLayer",
    "LastToken",
    "LayerScale",
    "LearnedPositions",
    "LinearProjection",
    "LocalEnhancement",
    "MLMTransform",
    "MaxPool",
    "MeanPool",
    "Memory",
    "MemoryAttention",
    "MemoryProjection",
    "Model",
    "MultiplicativeProjection",
    "NoNorm",
    "NoPositions",
    "NoPrefix",
    "NoTextPositions",
    "NoTransform",
    "Norm",
    "NormedStem",
    "OverlapEmbed",
    "Partition",
    "PartlyTied",
    "PatchEmbed",
    "PatchMerge",
    "Pattern",
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
    "SeparableProjection",
    "SequenceHead",
    "SinusoidalPositions",
    "Sinusoids",
    "SqueezeExcite",
    "Stage",
    "TextEmbedding",
    "TextModel",
    "TextPosition",
    "TextPositionName",
    "TiedLinear",
    "TokenClassificationHead",
    "TokenEmbedding",
    "TokenLosses",
    "TokenMixing",
    "Tokens",
    "Translator",
    "Trigram",
    "VectorEmbedding",
    "Windows",
    "WordByWord",
    "checkpoint_activations",
    "drop_path_rates",
    "first_token",
    "follow_attention",
    "mean_of_patches",
    "members",
    "overlapping",
    "pre_norm_block",
    "record_attention",
    "reference_attention",
    "separate_heads",
    "shortcut",
    "token_losses",
]
