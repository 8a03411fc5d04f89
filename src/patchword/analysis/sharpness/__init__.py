"""Sharpness."""
