"""All detectors by name."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

from patchword.core.card import Card, ConfigValue
from patchword.core.errors import UserError, nearest
from patchword.layers.dense.detector import Detector
from patchword.models.dense.backbones import pixel_normalization
from patchword.models.detection.anchor_detectors import ANCHOR_DETECTORS
from patchword.models.detection.detr import DETR
from patchword.models.detection.family import DetectorFamily
from patchword.models.detection.reppoints import POINT_DETECTORS
from patchword.models.detection.sparse_rcnn import SPARSE_DETECTORS
from patchword.models.registry import configured

DetectorName = Literal[
    "faster-rcnn", "mask-rcnn", "cascade-mask-rcnn", "retinanet", "atss", "reppoints-v2", "sparse-rcnn", "detr"
]
DETECTORS: Mapping[str, DetectorFamily] = {  # the names above
    **ANCHOR_DETECTORS,
    **POINT_DETECTORS,
    **SPARSE_DETECTORS,
    **DETR,
}


def create_detector(name: str, /, **overrides: ConfigValue) -> Detector:
    """Create a detector with newly initialized weights.

    >>> create_detector("mask-rcnn", backbone="swin-tiny", classes=3)
    """
    if name not in DETECTORS:
        raise UserError(f"no detector is called {name!r}", hint=nearest(name, DETECTORS))
    config = configured(name, DETECTORS[name].config, overrides)
    detector = DETECTORS[name].build(config)
    detector.card = Card(name, asdict(config), normalization=pixel_normalization(config))
    return detector
