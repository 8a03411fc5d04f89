"""Finds out whether the model of a recipe is a registry name or trained weights."""

from pathlib import Path

from patchword.core.errors import UserError, nearest
from patchword.models import REGISTRY
from patchword.recipes.schema.recipe import ModelChoice


def weights_path(choice: ModelChoice) -> Path | None:
    """Return the path of the weights, or None for a model of the registry; anything else is an error."""
    path = Path(choice.name)
    if path.exists():
        return path
    if choice.name in REGISTRY.names():
        return None
    raise UserError(
        f"no model is called {choice.name!r}, and there is no such file or folder",
        expected="a name, a run, a model folder, a .safetensors or an .npz file",
        hint=f"{nearest(choice.name, REGISTRY.names())} (`patchword models` lists all)",
    )
