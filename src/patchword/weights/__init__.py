"""NAMES: read and write weights in our format and in those of other libraries."""

from patchword.weights.creation import create
from patchword.weights.io.backbone_weights import load_backbone
from patchword.weights.io.loading import load, load_detector, load_model, load_segmenter
from patchword.weights.io.saving import save

__all__ = ["create", "load", "load_backbone", "load_detector", "load_model", "load_segmenter", "save"]
