"""All text tasks: a new task adds a line here, and its name to the recipe's field."""

from typing import Any

from patchword.core.errors import UserError, nearest
from patchword.data.text.formats.glue import GLUE
from patchword.recipes.text.recipe import TextRecipe, TextTaskName
from patchword.recipes.text.tasks.classes import ClassTask, LabelsTask, NumberTask
from patchword.recipes.text.tasks.span import SpanTask
from patchword.recipes.text.tasks.spec import TextTaskSpec
from patchword.recipes.text.tasks.tags import TagTask

TEXT_TASKS: dict[TextTaskName, type[TextTaskSpec[Any]]] = {
    spec.name: spec for spec in (ClassTask, LabelsTask, NumberTask, TagTask, SpanTask)
}


def task_spec_of(recipe: TextRecipe) -> TextTaskSpec[Any]:
    """Return the task of a recipe; a task of GLUE determines it itself."""
    if not recipe.glue:
        return TEXT_TASKS[recipe.task](recipe)
    if recipe.glue not in GLUE:
        raise UserError(f"GLUE has no task {recipe.glue!r}", hint=nearest(recipe.glue, GLUE))
    return ClassTask(recipe) if GLUE[recipe.glue].labels else NumberTask(recipe)


def task_of_head(head: str, classes: int) -> TextTaskName | None:
    """Return the task that a model with this head was trained for, if the head determines it."""
    if head == NumberTask.head and classes == 1:
        return "number"
    return next((task for task, spec in TEXT_TASKS.items() if spec.head == head), None)
