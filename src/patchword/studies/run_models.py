"""The models of a study's runs: whether they can be built, and their cost."""

from typing import NamedTuple

import torch

from patchword.analysis.cost import count
from patchword.analysis.cost.detection import count_detector, largest_input
from patchword.analysis.cost.segmentation import count_segmenter
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.recipes.dense.backbones import load_backbone_weights
from patchword.recipes.detection.model import DetectorPlan, plan_detector
from patchword.recipes.detection.recipe import DetectionRecipe
from patchword.recipes.model_choice import has_weights
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import ModelChoice, Recipe
from patchword.recipes.segmentation.model import SegmenterPlan, plan_segmenter
from patchword.recipes.segmentation.recipe import SegmentationRecipe

_CLASSES = ("object",)  # the number of classes of a detector is known when its data is read


class ModelCost(NamedTuple):
    """The model of a run, and its cost for one input."""

    name: str
    parameters: int
    macs: int


def check_model(recipe: Recipe) -> None:
    """Raise an error if a recipe's model cannot be built, or if the weights of a backbone do not fit."""
    if isinstance(recipe, DetectionRecipe):
        _check_dense(plan_detector(recipe), recipe.backbone_weights)
    elif isinstance(recipe, SegmentationRecipe):
        _check_dense(plan_segmenter(recipe), recipe.backbone_weights)
    else:
        _check_encoder(recipe.model)


def _check_dense(plan: DetectorPlan | SegmenterPlan, backbone_weights: str) -> None:
    """Build a detector or a segmenter, without memory if there are no weights to compare."""
    if backbone_weights:
        load_backbone_weights(plan.build(_CLASSES), backbone_weights)
    elif plan.weights is None:
        with torch.device("meta"):
            plan.build(_CLASSES)


def _check_encoder(choice: ModelChoice) -> None:
    """Build the model of a registry name without memory; the weights of a folder are checked when they are read."""
    if choice.name in REGISTRY.names():
        with torch.device("meta"):
            REGISTRY.create(choice.name, **choice.overrides())
    elif not has_weights(choice):
        hint = "`patchword train bert-pretrain` makes one; or give another with model=FOLDER"
        raise UserError(f"there is no model {choice.name}", expected="a registry name or a folder", hint=hint)


def cost_of(run: Run) -> ModelCost:
    """Return the cost of a run's model, of a detector for its largest image, of a segmenter for a crop."""
    recipe = run.recipe()
    if isinstance(recipe, DetectionRecipe):
        card = run.detector().card
        detector = count_detector(card, size=largest_input(card))
        return ModelCost(f"{card.model} with {card.config['backbone']}", detector.parameters, detector.macs)
    if isinstance(recipe, SegmentationRecipe):
        card = run.segmenter().card
        segmenter = count_segmenter(card, size=(card.config["crop"], card.config["crop"]))
        return ModelCost(f"{card.model} with {card.config['backbone']}", segmenter.parameters, segmenter.macs)
    card = run.model().card
    cost = count(card)
    name = recipe.model.name if recipe.model.name in REGISTRY.names() else card.model
    return ModelCost(name, cost.parameters, cost.macs)
