"""What a detection run is about to do, printed before its first step."""

from collections.abc import Mapping
from typing import Any

import torch
from rich.console import Console

from patchword.core.device import pick_precision
from patchword.data.detection.sources import SCENES, DetectionSource
from patchword.data.detection.splits import DetectionSplits
from patchword.layers.dense.detector import Detector
from patchword.recipes.detection.model import DetectorPlan
from patchword.recipes.detection.recipe import DetectionRecipe
from patchword.weights.io.backbone_weights import LoadedBackbone

_QUERIES = ("queries", "proposals")  # fields of DETR and Sparse R-CNN
_FROZEN = "warning: the first stages of the backbone have random weights and are frozen: model.frozen=0 trains them"


def print_summary(
    recipe: DetectionRecipe,
    plan: DetectorPlan,
    detector: Detector,
    splits: DetectionSplits,
    loaded: LoadedBackbone | None,
    device: torch.device,
    console: Console,
) -> None:
    """Print the detector, its weights, the input, the data and the device; warn of frozen random weights."""
    config, parameters = detector.card.config, sum(parameter.numel() for parameter in detector.parameters())
    weights = "random: training starts from scratch"
    if plan.weights is not None:
        weights = f"{plan.weights.path}; {plan.weights.trained_outputs(splits.train.classes)}"
    train = splits.train
    held = f"{len(splits.validation):,} for validation, {len(splits.test):,} for the test"
    outlines = "boxes and masks" if plan.predicts_masks else "boxes"
    lines = [
        f"model    {detector.card.model} with {config['backbone']}, {parameters:,} parameters",
        f"weights  {weights if loaded is None else f'backbone: {loaded}'}",
        f"input    shorter side {config['min_size']} pixels, longer side at most {config['max_size']}, "
        f"{'grey' if plan.channels == 1 else 'colour'}",
        f"data     {train.name}: {len(train):,} images for training, {held}",
        f"objects  {outlines} of {len(train.classes):,} classes",
        f"device   {device}, {pick_precision(recipe.precision, device)}",
    ]
    if plan.weights is None and loaded is None and any(not one.requires_grad for one in detector.backbone.parameters()):
        lines.append(_FROZEN)
    lines += _few_queries(recipe, config, train)
    for line in lines:
        console.print(line, highlight=False, markup=False)


def _few_queries(recipe: DetectionRecipe, config: Mapping[str, Any], train: DetectionSource) -> list[str]:
    """Return a warning if a training image has more objects than the detector can find."""
    field = next((name for name in _QUERIES if name in config), None)
    if field is None or recipe.data in SCENES:  # scenes have few objects
        return []
    counts = [len(train.areas(index)) for index in range(len(train))]
    above = sum(count > config[field] for count in counts)
    if not above:
        return []
    having = "1 training image has" if above == 1 else f"{above:,} training images have"
    return [
        f"warning: {having} more objects than model.{field}={config[field]}, the most that can be found per image; "
        f"the largest number is {max(counts)}"
    ]
