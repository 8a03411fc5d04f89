"""Detectors by name, each on any backbone of the registry."""

from patchword.models.detection.detectors import DETECTORS, create_detector

__all__ = ["DETECTORS", "create_detector"]
