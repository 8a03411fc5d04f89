"""Figures and report sections of semantic segmentation."""
