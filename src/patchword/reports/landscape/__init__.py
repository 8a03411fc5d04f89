"""Figures of loss landscapes and of sharpness."""
