"""What a recipe can and cannot do on several processes, found out before anything is read."""

from typing import Any

from patchword.core.errors import UserError
from patchword.recipes.recipe import Recipe
from patchword.training.parallel.process_group import SingleProcess
from patchword.training.parallel.sharded import Sharded

_WHOLE = ("images", "text", "pretraining")  # kinds whose models are only ever asked as a whole


def check_group(recipe: Recipe, group: SingleProcess) -> None:
    if recipe.batch < group.size:
        raise UserError(
            "recipe field 'batch'", expected=f"{group.size} or more, one for each process", got=recipe.batch
        )
    if recipe.rewind and group.size > 1:
        raise UserError("rewind is for one process", expected="rewind=0", got=recipe.rewind)
    if not isinstance(group, Sharded):
        return
    teacher: Any = getattr(recipe, "teacher", None)
    reasons = {
        f"a recipe of {recipe.kind}": recipe.kind not in _WHOLE,
        "a teacher": teacher is not None and bool(teacher.name),
        "averaged_epochs": bool(recipe.averaged_epochs),
        "recompute": recipe.recompute is not False,
    }
    for reason in (name for name, present in reasons.items() if present):
        raise UserError(f"sharding=full does not go with {reason}", expected="sharding=none")
