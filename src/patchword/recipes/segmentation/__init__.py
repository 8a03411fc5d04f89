"""Semantic segmentation: its recipe, its training task, its evaluation."""
