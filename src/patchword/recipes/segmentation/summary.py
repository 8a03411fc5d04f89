"""What a segmentation run is about to do, printed before its first step."""

import torch
from rich.console import Console

from patchword.core.device import pick_precision
from patchword.data.segmentation.splits import SegmentationSplits
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.recipes.segmentation.model import SegmenterPlan
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.weights.io.backbone_weights import LoadedBackbone

_FROZEN = "warning: the first stages of the backbone have random weights and are frozen: model.frozen=0 trains them"


def print_summary(
    recipe: SegmentationRecipe,
    plan: SegmenterPlan,
    segmenter: Segmenter,
    splits: SegmentationSplits,
    loaded: LoadedBackbone | None,
    device: torch.device,
    console: Console,
) -> None:
    """Print the segmenter, its weights, the input, the data and the device; warn of frozen random weights."""
    config, parameters = segmenter.card.config, sum(parameter.numel() for parameter in segmenter.parameters())
    weights = "random: training starts from scratch"
    if plan.weights is not None:
        weights = f"{plan.weights.path}; {plan.weights.trained_outputs(splits.train.classes)}"
    train = splits.train
    held = f"{len(splits.validation):,} for validation, {len(splits.test):,} for the test"
    lines = [
        f"model    {segmenter.card.model} with {config['backbone']}, {parameters:,} parameters",
        f"weights  {weights if loaded is None else f'backbone: {loaded}'}",
        f"input    crops of {recipe.crop} x {recipe.crop} pixels, {'grey' if plan.channels == 1 else 'colour'}; "
        f"tested {'whole' if recipe.test == 'whole' else 'in sliding windows'}",
        f"data     {train.name}: {len(train):,} images for training, {held}",
        f"labels   {splits.about}",
        f"classes  {len(train.classes):,}: {_shown(train.classes)}",
        f"device   {device}, {pick_precision(recipe.precision, device)}",
    ]
    if (
        plan.weights is None
        and loaded is None
        and any(not one.requires_grad for one in segmenter.backbone.parameters())
    ):
        lines.append(_FROZEN)
    for line in lines:
        console.print(line, highlight=False, markup=False)


def _shown(names: tuple[str, ...], most: int = 12) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
