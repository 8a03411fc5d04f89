"""Segmenters by name, each on any backbone of the registry."""

from patchword.models.segmentation.segmenters import SEGMENTERS, SegmenterName, create_segmenter

__all__ = ["SEGMENTERS", "SegmenterName", "create_segmenter"]
