"""Geometry of images: boxes."""
