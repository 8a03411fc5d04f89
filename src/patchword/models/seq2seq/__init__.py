"""Families of sequence-to-sequence models."""
