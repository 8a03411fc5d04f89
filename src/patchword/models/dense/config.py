"""The sizes that detectors and segmenters share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from patchword.layers.dense.backbones import BatchNorms


@dataclass(frozen=True, kw_only=True)
class DenseConfig:
    """The backbone of a detector or a segmenter.

    backbone: a model of the registry. backbone_fields: fields of its config to change, e.g. {"drop_path": 0.2}.
    width: channels of the neck.
    frozen: number of stages of the backbone that are not trained; None: one of a ResNet, none of a Transformer.
    batch_norms: those of the backbone: with fixed statistics ("evaluate"), also without parameters ("buffers"), or not.
    batch_norm_eps: of the batch norms of the backbone, if not its own (0 in torchvision's published weights).
    window_padding: whether tokens of a Swin attend to the padding of its windows (the authors' dense code, and its
        weights) or not.
    """

    backbone: str = "resnet-50"
    backbone_fields: Mapping[str, Any] = field(default_factory=dict)
    classes: PositiveInt = 80
    width: PositiveInt = 256
    frozen: NonNegativeInt | None = None
    batch_norms: BatchNorms = "evaluate"
    batch_norm_eps: NonNegativeFloat | None = None
    window_padding: Literal["masked", "attended"] = "masked"
