"""Semantic segmentation data: images with label maps, in several folder layouts."""
