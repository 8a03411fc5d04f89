"""The sizes of detectors."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from patchword.models.dense.config import DenseConfig


@dataclass(frozen=True, kw_only=True)
class DetectorConfig(DenseConfig):
    """Sizes that all detectors have.

    min_size, max_size: an image is resized so that its shorter side has min_size pixels, unless its longer side then
        has more than max_size.
    max_detections: most objects per image.
    """

    min_size: PositiveInt = 800
    max_size: PositiveInt = 1333
    max_detections: PositiveInt = 100


@dataclass(frozen=True, kw_only=True)
class AnchorConfig(DetectorConfig):
    """Fields of detectors with anchors in which libraries differ; the defaults are mmdet's, and `load` sets those of a
    file.

    rounded_anchors: round the corners of the anchors to integers (torchvision).
    fitted_strides: anchors lie size of the padded image // cells apart (torchvision), not one stride.
    clamp_below: limit how much smaller than its anchor a box may be (mmdet).
    """

    rounded_anchors: bool = False
    fitted_strides: bool = False
    clamp_below: bool = True


@dataclass(frozen=True, kw_only=True)
class RcnnConfig(AnchorConfig):
    """Sizes of Faster, Mask and Cascade R-CNN.

    convolutions, layers, hidden: 3x3 convolutions, linear layers and their width in a box head.
    inner: channels of the convolutions of box and mask heads; None: those of the neck.
    class_agnostic: one box for all classes instead of one per class.
    aligned, samples: the rule of RoIAlign (torchvision: not aligned, 2 samples).
    min_proposal_size, min_box_size: least sides in pixels of proposals and detections (torchvision: 0.001, 0.01).
    max_proposals, max_training_proposals: most proposals per image, at inference and in training; None: 2000 of a
        cascade, else 1000.
    roi_samples: boxes per image that each box head learns from, sampled from the proposals; a quarter of them, at most,
        have an object, and the mask head learns from those.
    """

    masks: bool = True
    stages: Literal[1, 3] = 1
    convolutions: NonNegativeInt = 0
    layers: PositiveInt = 2
    hidden: PositiveInt = 1024
    inner: PositiveInt | None = None
    class_agnostic: bool = False
    aligned: bool = True
    samples: PositiveInt | Literal["adaptive"] = "adaptive"
    min_proposal_size: NonNegativeFloat = 0.0
    min_box_size: NonNegativeFloat = 0.0
    max_proposals: PositiveInt = 1000
    max_training_proposals: PositiveInt | None = None
    roi_samples: Annotated[int, Field(ge=4)] = 512


@dataclass(frozen=True, kw_only=True)
class OneStageConfig(AnchorConfig):
    """Sizes of RetinaNet and ATSS.

    depth: convolutions before the outputs. groups: of their group normalization, or 0 for none.
    extra_from, extra_relu: see `Fpn`. P6 is made of the coarsest map of the backbone ("input") or of the neck
        ("output"); torchvision applies ReLU before P7.
    integer_lengths: round the lengths of the anchors down (torchvision).
    rank_pairs: see `Selection` (torchvision: True).
    """

    depth: PositiveInt = 4
    groups: NonNegativeInt = 0
    extra_from: Literal["input", "output"] = "input"
    extra_relu: bool = False
    integer_lengths: bool = False
    rank_pairs: bool = False
