"""Timing of models, each in a process of its own."""
