"""The sizes of segmenters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, PositiveInt

from patchword.layers.dense.backbones import BatchNorms
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.models.dense.config import DenseConfig

Rate = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True, kw_only=True)
class SegmenterConfig(DenseConfig):
    """Sizes that all segmenters have.

    crop: side in pixels of the training crops and of the windows of sliding-window inference.
    head_dropout: dropout rate of whole channels before the logits.
    deep_stem: a ResNet has three 3x3 convolutions as its stem (mmseg's ResNetV1c) instead of one of 7x7.
    """

    classes: PositiveInt = 150
    batch_norms: BatchNorms = "train"
    crop: PositiveInt = 512
    head_dropout: Rate = 0.1
    deep_stem: bool = False


@dataclass(frozen=True, kw_only=True)
class UperNetConfig(SegmenterConfig):
    """Sizes of UperNet.

    width: channels of the pyramid. scales: rows and columns of the pooled maps.
    auxiliary: channels of the auxiliary head, which reads the second coarsest map (stride 16 of four); 0: no such head.
    """

    width: PositiveInt = 512
    scales: tuple[PositiveInt, ...] = (1, 2, 3, 6)
    auxiliary: Annotated[int, Field(ge=0)] = 256


@dataclass(frozen=True, kw_only=True)
class SemanticFpnConfig(SegmenterConfig):
    """Sizes of Semantic FPN. width: channels of the feature pyramid. hidden: channels of the head."""

    hidden: PositiveInt = 128


@dataclass(frozen=True)
class SegmenterFamily:
    """A segmenter by name: its paper, its default sizes and the function that builds it.

    parameters, macs: of the default sizes, as counted by `patchword.analysis.cost`, which tests verify.
    """

    title: str
    paper: str
    config: SegmenterConfig
    build: Callable[[Any], Segmenter]
    parameters: int
    macs: int
