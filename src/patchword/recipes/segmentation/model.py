"""Builds the segmenter of a recipe: by name with random weights, or from the folder of a trained one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from patchword.core.errors import UserError, nearest
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS
from patchword.models.segmentation import SEGMENTERS, create_segmenter
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.weights.hub.cache import local_path
from patchword.weights.io.backbone_weights import LoadedBackbone, load_backbone
from patchword.weights.io.loading import OpenWeights, open_weights


@dataclass(frozen=True)
class SegmenterPlan:
    """The segmenter of a recipe, known before images are read. weights: None for random ones."""

    name: str
    fields: Mapping[str, Any]
    channels: int
    weights: OpenWeights | None = None

    def build(self, classes: tuple[str, ...]) -> Segmenter:
        """Build the segmenter for these classes. Trained outputs are kept only if they are of the same classes."""
        fields = {**self.fields, "classes": len(classes)}
        if self.weights is None:
            segmenter = create_segmenter(self.name, **fields)
        else:
            segmenter = self.weights.build_segmenter(**fields).train()
        segmenter.card = replace(segmenter.card, labels=classes)
        return segmenter


def plan_segmenter(recipe: SegmentationRecipe) -> SegmenterPlan:
    """Find the segmenter of a recipe and the number of channels that it reads. Wrong settings are reported here.

    No stage of a random backbone is frozen, unless the recipe says so.
    """
    choice = recipe.model
    fields = {**choice.overrides(), "crop": recipe.crop}
    _check_backbone_source(recipe.backbone_weights)
    if choice.name in SEGMENTERS:
        fields = fields if recipe.backbone_weights else {"frozen": 0, **fields}
        with torch.device("meta"):  # checks all fields before the images are read
            create_segmenter(choice.name, **fields)
        return SegmenterPlan(choice.name, fields, _channels(choice.name, fields))
    path = local_path(choice.name)
    if not path.exists():
        if choice.name in REGISTRY.names():
            hint = f"model=upernet model.backbone={choice.name} makes it the backbone of a segmenter"
        elif choice.name in DETECTORS:
            hint = f"it is a detector: `patchword train detect-objects model={choice.name}`"
        else:
            hint = nearest(choice.name, SEGMENTERS)
        raise UserError(
            f"no segmenter is called {choice.name!r}",
            expected=f"{', '.join(SEGMENTERS)}, or the folder of a trained segmenter",
            hint=hint,
        )
    weights = open_weights(choice.name, **fields)
    if not weights.is_segmenter:
        raise UserError(
            f"{choice.name} is not a segmenter",
            expected=f"one of {', '.join(SEGMENTERS)}",
            got=weights.card.model,
            hint=f"model=upernet model.backbone={weights.card.model} backbone_weights={choice.name}",
        )
    name = weights.card.model
    config = {**weights.card.config, **fields}
    if choice.from_scratch:  # the sizes of the trained one; nothing is frozen, as for any random backbone
        return SegmenterPlan(name, {**config, "frozen": fields.get("frozen", 0)}, _channels(name, config))
    return SegmenterPlan(name, fields, _channels(name, config), weights)


def _channels(name: str, fields: Mapping[str, Any]) -> int:
    known = SEGMENTERS[name].config
    backbone = fields.get("backbone", known.backbone)
    inner = dict(fields.get("backbone_fields", known.backbone_fields))
    REGISTRY.require_images(backbone)
    return int(REGISTRY.configure(backbone, inner).channels)


def load_backbone_weights(segmenter: Segmenter, source: str) -> LoadedBackbone | None:
    """Load the weights of a classifier into the backbone, if a source is given."""
    if not source:
        return None
    _check_backbone_source(source)
    return load_backbone(segmenter, source)


def _check_backbone_source(source: str) -> None:
    if source and not local_path(source).exists() and not Path(source).exists():
        raise UserError(
            f"recipe field 'backbone_weights': there is nothing at {source}",
            expected="a run, a model folder, a .safetensors file, or hf:OWNER/REPO in the cache",
        )
