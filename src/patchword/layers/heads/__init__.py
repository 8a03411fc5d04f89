"""Heads of image models and of text models."""
