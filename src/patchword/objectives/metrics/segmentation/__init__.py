"""Metrics of semantic and panoptic segmentation."""
