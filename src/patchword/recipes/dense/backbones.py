"""The backbone of a detector or a segmenter that a recipe names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.models import REGISTRY
from patchword.models.dense.config import DenseConfig
from patchword.weights.io.backbone_weights import LoadedBackbone, load_backbone
from patchword.weights.local_path import local_path


def backbone_channels(known: DenseConfig, fields: Mapping[str, Any]) -> int:
    """Return the channels of the images. known: the default config. fields: those that the recipe changes."""
    backbone = fields.get("backbone", known.backbone)
    inner = dict(fields.get("backbone_fields", known.backbone_fields))
    REGISTRY.require_images(backbone)
    return int(REGISTRY.configure(backbone, inner).channels)


def channels_of(model: Detector | Segmenter) -> int:
    """Return the number of channels of the images that a detector or a segmenter reads."""
    config = model.card.config
    return int(REGISTRY.configure(config["backbone"], config["backbone_fields"]).channels)


def load_backbone_weights(model: Detector | Segmenter, source: str) -> LoadedBackbone | None:
    """Load the weights of a classifier into the backbone, if a source is given."""
    if not source:
        return None
    check_backbone_source(source)
    return load_backbone(model, source)


def check_backbone_source(source: str) -> None:
    """Raise an error if backbone weights are named that do not exist."""
    if source and not local_path(source).exists() and not Path(source).exists():
        raise UserError(
            f"recipe field 'backbone_weights': there is nothing at {source}",
            expected="a run, a model folder, a .safetensors file, or hf:OWNER/REPO in the cache",
        )
