"""Builds the detector of a recipe: by name with random weights, or from the folder of a trained one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from patchword.core.errors import UserError, nearest
from patchword.data.detection.splits import DetectionSplits
from patchword.layers.dense.detector import Detector
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS, create_detector
from patchword.models.segmentation import SEGMENTERS
from patchword.recipes.dense.backbones import backbone_channels, check_backbone_source
from patchword.recipes.detection.recipe import DetectionRecipe
from patchword.weights.io.loading import OpenWeights, open_weights
from patchword.weights.local_path import local_path


@dataclass(frozen=True)
class DetectorPlan:
    """The detector of a recipe, known before images are read. weights: None for random ones."""

    name: str
    fields: Mapping[str, Any]
    channels: int
    weights: OpenWeights | None = None

    @property
    def predicts_masks(self) -> bool:
        """True if the detector has mask heads."""
        config: dict[str, Any] = {**vars(DETECTORS[self.name].config), **self.fields}
        return bool(config.get("masks", False))

    def build(self, classes: tuple[str, ...]) -> Detector:
        """Build the detector for these classes. Trained outputs are kept only if they are of the same classes."""
        fields = {**self.fields, "classes": len(classes)}
        if self.weights is None:
            detector = create_detector(self.name, **fields)
        else:
            detector = self.weights.build_detector(**fields).train()
        detector.card = replace(detector.card, labels=classes)
        return detector


def plan_detector(recipe: DetectionRecipe) -> DetectorPlan:
    """Find the detector of a recipe and the number of channels that it reads. Wrong settings are reported here.

    A random backbone has no frozen stage and, in a DETR, no fixed batch norms, unless the recipe sets them.
    """
    choice = recipe.model
    fields = choice.overrides()
    check_backbone_source(recipe.backbone_weights)
    if choice.name in DETECTORS:
        if not recipe.backbone_weights:
            norms = {"batch_norms": "train"} if DETECTORS[choice.name].config.batch_norms == "buffers" else {}
            fields = {"frozen": 0, **norms, **fields}
        with torch.device("meta"):  # checks all fields before the images are read
            create_detector(choice.name, **fields)
        return DetectorPlan(choice.name, fields, backbone_channels(DETECTORS[choice.name].config, fields))
    path = local_path(choice.name)
    if not path.exists():
        if choice.name in REGISTRY.names():
            hint = f"model=atss model.backbone={choice.name} makes it the backbone of a detector"
        elif choice.name in SEGMENTERS:
            hint = f"it is a segmenter: `patchword train segment-images model={choice.name}`"
        else:
            hint = nearest(choice.name, DETECTORS)
        raise UserError(
            f"no detector is called {choice.name!r}",
            expected=f"{', '.join(DETECTORS)}, or the folder of a trained detector",
            hint=hint,
        )
    weights = open_weights(choice.name, **fields)
    if not weights.is_detector:
        raise UserError(
            f"{choice.name} is not a detector",
            expected=f"one of {', '.join(DETECTORS)}",
            got=weights.card.model,
            hint=f"model=atss model.backbone={weights.card.model} backbone_weights={choice.name}",
        )
    name = weights.card.model
    config = {**weights.card.config, **fields}
    channels = backbone_channels(DETECTORS[name].config, config)
    if choice.from_scratch:  # the sizes of the trained one; nothing is frozen, as for any random backbone
        return DetectorPlan(name, {**config, "frozen": fields.get("frozen", 0)}, channels)
    return DetectorPlan(name, fields, channels, weights)


def check_masks(plan: DetectorPlan, splits: DetectionSplits, data: str) -> None:
    """Raise an error for a detector of masks whose data has boxes only."""
    if plan.predicts_masks and not splits.train.has_masks:
        raise UserError(
            f"{plan.name} learns masks, but not every object of {data} has an outline",
            hint="model=faster-rcnn, model=atss or model=retinanet learn from boxes",
        )
