"""What a recipe can and cannot do on several processes, found out before anything is read."""

from typing import Any

from patchword.core.errors import UserError
from patchword.recipes.recipe import Recipe
from patchword.training.parallel.process_group import SingleProcess
from patchword.training.parallel.sharded import Sharded

_WHOLE = ("images", "text", "pretraining")  # kinds whose models are only ever asked as a whole


def check_group(recipe: Recipe, group: SingleProcess) -> None:
    if recipe.batch_size < group.size:
        raise UserError(
            "recipe field 'batch_size'", expected=f"{group.size} or more, one for each process", got=recipe.batch_size
        )
    if recipe.loss_spike_factor and group.size > 1:
        raise UserError(
            "loss_spike_factor is for one process", expected="loss_spike_factor=0", got=recipe.loss_spike_factor
        )
    if not isinstance(group, Sharded):
        return
    teacher: Any = getattr(recipe, "teacher", None)
    reasons = {
        f"a recipe of {recipe.kind}": recipe.kind not in _WHOLE,
        "a teacher": teacher is not None and bool(teacher.name),
        "average_last_epochs": bool(recipe.average_last_epochs),
        "activation_checkpointing": recipe.activation_checkpointing is not False,
    }
    for reason in (name for name, present in reasons.items() if present):
        raise UserError(f"sharding=full does not go with {reason}", expected="sharding=none")
