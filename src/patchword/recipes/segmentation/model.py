"""Builds the segmenter of a recipe: by name with random weights, or from the folder of a trained one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from patchword.core.card import Resize
from patchword.core.errors import UserError, nearest
from patchword.layers.dense.segmentation.pyramid_pooling import PyramidPooling
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.models import REGISTRY
from patchword.models.dense.backbones import DenseBackbone
from patchword.models.detection import DETECTORS
from patchword.models.segmentation import SEGMENTERS, create_segmenter
from patchword.recipes.dense.backbones import backbone_channels, check_backbone_source
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.weights.io.loading import OpenWeights, open_weights
from patchword.weights.local_path import local_path


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
        segmenter.card = replace(segmenter.card, labels=classes, resize=Resize())  # the recipe says how to test it
        return segmenter


def check_micro_batches(recipe: SegmentationRecipe, segmenter: Segmenter, images: int) -> None:
    """Refuse micro-batches of one image if a batch norm reads a map of one cell. images: in the training data."""
    pooled = any(isinstance(part, PyramidPooling) and 1 in part.scales for part in segmenter.modules())
    if not pooled and recipe.crop > max(cast(DenseBackbone, segmenter.backbone).strides):
        return
    batch, parts = min(recipe.batch_size, images), recipe.gradient_accumulation
    largest = -(-batch // parts)
    if batch - (batch - 1) // largest * largest == 1:  # the last part of torch.chunk is the smallest
        raise UserError(
            f"{segmenter.card.model!r} cannot be trained with one image per micro-batch",
            expected="at least two images: a batch norm reads one value per image "
            + ("in pyramid pooling" if pooled else f"in crops of {recipe.crop} pixels"),
            got=f"batch_size={recipe.batch_size} gradient_accumulation={parts} and {images:,} training images",
            hint="set a larger batch_size or a smaller gradient_accumulation"
            + ("; model=semantic-fpn has no pyramid pooling" if pooled else ", or a larger crop"),
        )


def plan_segmenter(recipe: SegmentationRecipe) -> SegmenterPlan:
    """Find the segmenter of a recipe and the number of channels that it reads. Wrong settings are reported here.

    No stage of a random backbone is frozen, unless the recipe says so.
    """
    choice = recipe.model
    fields = {**choice.overrides(), "crop": recipe.crop}
    check_backbone_source(recipe.backbone_weights)
    if choice.name in SEGMENTERS:
        fields = fields if recipe.backbone_weights else {"frozen": 0, **fields}
        with torch.device("meta"):  # checks all fields before the images are read
            create_segmenter(choice.name, **fields)
        return SegmenterPlan(choice.name, fields, backbone_channels(SEGMENTERS[choice.name].config, fields))
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
    channels = backbone_channels(SEGMENTERS[name].config, config)
    if choice.from_scratch:  # the sizes of the trained one; nothing is frozen, as for any random backbone
        return SegmenterPlan(name, {**config, "frozen": fields.get("frozen", 0)}, channels)
    return SegmenterPlan(name, fields, channels, weights)
