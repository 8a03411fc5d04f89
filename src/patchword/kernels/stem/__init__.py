"""Stem."""
