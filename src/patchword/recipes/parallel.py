"""Checks that a recipe can run on several processes, before any data is read."""

from typing import Any

from patchword.core.errors import UserError
from patchword.recipes.schema.recipe import Recipe
from patchword.training.parallel.process_group import SingleProcess
from patchword.training.parallel.sharded import Sharded

# Kinds whose models are only called as a whole, as FSDP2 needs.
_SHARDABLE = ("images", "image-pretraining", "text", "pretraining")


def check_group(recipe: Recipe, group: SingleProcess) -> None:
    """Raise an error if the recipe cannot run on these processes."""
    if recipe.batch_size < group.size:
        raise UserError(
            "recipe field 'batch_size'",
            expected=f"at least {group.size}, one sample per process",
            got=recipe.batch_size,
        )
    if recipe.loss_spike_factor and group.size > 1:
        raise UserError(
            "recipe field 'loss_spike_factor' works with one process only",
            expected="loss_spike_factor=0",
            got=recipe.loss_spike_factor,
        )
    if not isinstance(group, Sharded):
        return
    teacher: Any = getattr(recipe, "teacher", None)
    reasons = {
        f"a recipe of {recipe.kind}": recipe.kind not in _SHARDABLE,
        "a teacher": teacher is not None and bool(teacher.name),
        "average_last_epochs": bool(recipe.average_last_epochs),
        "activation_checkpointing": recipe.activation_checkpointing is not False,
    }
    for reason in (name for name, present in reasons.items() if present):
        raise UserError(f"sharding=full does not support {reason}", expected="sharding=none")
