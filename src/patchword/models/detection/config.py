"""The sizes of detectors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import NonNegativeInt, PositiveInt

from patchword.layers.dense.backbones import BatchNorms


@dataclass(frozen=True, kw_only=True)
class DetectorConfig:
    """Sizes that all detectors have.

    backbone: a model of the registry. backbone_fields: fields of its config to change, e.g. {"drop_path": 0.2}.
    width: channels of the neck.
    frozen: number of stages of the backbone that are not trained; None: one of a ResNet, none of a Transformer.
    batch_norms: those of the backbone: with fixed statistics ("evaluate"), also without parameters ("buffers"), or not.
    window_padding: whether tokens of a Swin attend to the padding of its windows (the authors' dense code, and its
        weights) or not.
    min_size, max_size: an image is resized so that its shorter side has min_size pixels, unless its longer side then
        has more than max_size.
    """

    backbone: str = "resnet-50"
    backbone_fields: Mapping[str, Any] = field(default_factory=dict)
    classes: PositiveInt = 80
    width: PositiveInt = 256
    frozen: NonNegativeInt | None = None
    batch_norms: BatchNorms = "evaluate"
    window_padding: Literal["masked", "attended"] = "masked"
    min_size: PositiveInt = 800
    max_size: PositiveInt = 1333


@dataclass(frozen=True, kw_only=True)
class RcnnConfig(DetectorConfig):
    """Sizes of Faster, Mask and Cascade R-CNN.

    convolutions, layers, hidden: 3x3 convolutions, linear layers and their width in a box head.
    """

    masks: bool = True
    stages: Literal[1, 3] = 1
    convolutions: NonNegativeInt = 0
    layers: PositiveInt = 2
    hidden: PositiveInt = 1024


@dataclass(frozen=True, kw_only=True)
class OneStageConfig(DetectorConfig):
    """Sizes of RetinaNet and ATSS. depth: convolutions before the outputs."""

    depth: PositiveInt = 4
