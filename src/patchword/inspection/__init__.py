"""Inspection of a finished run: attention, sharpness, robustness."""
