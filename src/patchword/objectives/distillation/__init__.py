"""Distillation: losses on a teacher's outputs and layers, and initialization from a teacher."""
