"""Timing of models, each in its own process."""
