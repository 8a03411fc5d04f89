"""Checks that a recipe can run on several processes, before any data is read."""

from typing import Any

from patchword.core.errors import UserError
from patchword.recipes.recipe import Recipe
from patchword.training.parallel.process_group import SingleProcess
from patchword.training.parallel.sharded import Sharded

_SHARDABLE = ("images", "text", "pretraining")  # kinds whose models are only called as a whole, as FSDP2 needs


def check_group(recipe: Recipe, group: SingleProcess) -> None:
    """Raise an error if the recipe cannot run on these processes."""
    if recipe.batch < group.size:
        raise UserError(
            "recipe field 'batch'", expected=f"at least {group.size}, one sample per process", got=recipe.batch
        )
    if recipe.rewind and group.size > 1:
        raise UserError("recipe field 'rewind' works with one process only", expected="rewind=0", got=recipe.rewind)
    if not isinstance(group, Sharded):
        return
    teacher: Any = getattr(recipe, "teacher", None)
    reasons = {
        f"a recipe of {recipe.kind}": recipe.kind not in _SHARDABLE,
        "a teacher": teacher is not None and bool(teacher.name),
        "averaged_epochs": bool(recipe.averaged_epochs),
        "recompute": recipe.recompute is not False,
    }
    for reason in (name for name, present in reasons.items() if present):
        raise UserError(f"sharding=full does not support {reason}", expected="sharding=none")
