"""Segmenters as pipelines: images in, label maps out."""
