"""NAMES: read and write weights in our format and in those of other libraries."""

from patchword.weights.creation import create
from patchword.weights.io.loading import load
from patchword.weights.io.saving import save

__all__ = ["create", "load", "save"]
