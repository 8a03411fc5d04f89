"""Figures, numbers and the parts of an HTML page."""
