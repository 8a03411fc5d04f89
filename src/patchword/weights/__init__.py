"""NAMES: reading and writing weights, ours and other libraries'."""

from patchword.weights.loading import load
from patchword.weights.saving import save

__all__ = ["load", "save"]
