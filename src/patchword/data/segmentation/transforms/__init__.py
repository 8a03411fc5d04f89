"""Transforms that change an image and its label map together."""
