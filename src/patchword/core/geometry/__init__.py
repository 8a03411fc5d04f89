"""Geometry of images: boxes, and the objects of batches of images."""
