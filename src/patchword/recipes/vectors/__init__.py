"""Vectors of words, and recipes over them."""
