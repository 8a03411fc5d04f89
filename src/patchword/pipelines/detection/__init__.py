"""Detectors as pipelines: images and video frames in, typed objects out."""
