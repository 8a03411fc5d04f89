"""Detectors and segmenters by name: models that have a backbone of the registry."""

from collections.abc import Mapping

from patchword.models.detection import DETECTORS
from patchword.models.detection.family import DetectorFamily
from patchword.models.segmentation import SEGMENTERS
from patchword.models.segmentation.config import SegmenterFamily

DENSE: Mapping[str, DetectorFamily | SegmenterFamily] = {**DETECTORS, **SEGMENTERS}
