"""NAMES: reading and writing weights, ours and other libraries'."""

from patchword.weights.io.loading import load
from patchword.weights.io.saving import save

__all__ = ["load", "save"]
