"""How the weights of a run move: from the fields of a recipe to a step."""

import torch

from patchword.core.errors import UserError
from patchword.layers.model import Model
from patchword.recipes.device import pick_precision
from patchword.recipes.recipe import Recipe
from patchword.training.sam import Adaptive, SharpnessAware, Steepest
from patchword.training.step import Objective, PlainStep, Step


def check_step(recipe: Recipe) -> None:
    """A setting that would silently do nothing is refused."""
    if recipe.sam_adaptive and not recipe.sam:
        raise UserError(
            "recipe field 'sam_adaptive' has no effect without 'sam'", expected="sam above 0", hint="e.g. sam=2"
        )


def step_of(
    recipe: Recipe, objective: Objective, optimizer: torch.optim.Optimizer, model: Model, device: torch.device
) -> Step:
    """The plain step, or SAM over it."""
    plain = PlainStep(
        objective,
        optimizer,
        clip=recipe.clip,
        parts=recipe.accumulate,
        precision=pick_precision(recipe.precision, device),
    )
    if not recipe.sam:
        return plain
    return SharpnessAware(plain, model, Adaptive(recipe.sam) if recipe.sam_adaptive else Steepest(recipe.sam))
