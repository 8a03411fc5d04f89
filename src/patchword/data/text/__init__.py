"""Texts: tokenizers, readers of files, and the examples models learn from."""
