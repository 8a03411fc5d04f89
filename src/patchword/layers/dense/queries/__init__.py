"""Detectors whose objects are answers to learned queries, without anchors."""
