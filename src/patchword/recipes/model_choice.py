"""Finds out whether the model of a recipe is a registry name or trained weights."""

from pathlib import Path

from patchword.core.errors import UserError, nearest
from patchword.models import REGISTRY
from patchword.recipes.schema.fields import listed
from patchword.recipes.schema.recipe import ModelChoice, Recipe
from patchword.weights.local_path import local_path


def has_weights(choice: ModelChoice) -> bool:
    """Return True if the model is a run, a folder, a file, of the zoo, or of the hub and in the cache."""
    return local_path(choice.name).exists()


def model_names(recipe: Recipe) -> list[str]:
    """Return the names of the models that a recipe starts from: its model, and its teachers if it has some."""
    teacher = getattr(recipe, "teacher", None)
    return [recipe.model.name, *(listed(teacher.name) if teacher is not None else [])]


def weights_path(choice: ModelChoice) -> Path | None:
    """Return the path of the weights, or None for a model of the registry; anything else is an error.

    A name of the hub is looked up in the cache only: a recipe does not download.
    """
    path = local_path(choice.name)
    if path.exists():
        return path
    if choice.name in REGISTRY.names():
        return None
    raise UserError(
        f"no model is called {choice.name!r}, and there is no such file or folder",
        expected="a name, a run, a model folder, a .safetensors or an .npz file, zoo:NAME, or hf:OWNER/REPO",
        hint=f"{nearest(choice.name, REGISTRY.names())} (`patchword models` lists all)",
    )
