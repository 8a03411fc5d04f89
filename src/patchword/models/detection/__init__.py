"""Detectors by name, each on any backbone of the registry."""

from patchword.models.detection.detectors import DETECTORS, DetectorName, create_detector

__all__ = ["DETECTORS", "DetectorName", "create_detector"]
