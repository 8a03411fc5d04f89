"""Transforms that move the pixels, boxes and masks of a sample together."""
