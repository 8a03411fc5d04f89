"""Depthwise conv."""
