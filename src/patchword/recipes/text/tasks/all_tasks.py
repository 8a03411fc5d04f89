"""GOALS: a new task of texts adds a line, and its name to the recipe's field."""

from typing import Any

from patchword.core.errors import UserError, nearest
from patchword.data.text.formats.glue import GLUE
from patchword.recipes.text.recipe import TextRecipe, TextTaskName
from patchword.recipes.text.tasks.classes import ClassGoal, LabelsGoal, NumberGoal
from patchword.recipes.text.tasks.span import SpanGoal
from patchword.recipes.text.tasks.spec import TextGoal
from patchword.recipes.text.tasks.tags import TagGoal

GOALS: dict[TextTaskName, type[TextGoal[Any]]] = {
    goal.name: goal for goal in (ClassGoal, LabelsGoal, NumberGoal, TagGoal, SpanGoal)
}


def goal_of(recipe: TextRecipe) -> TextGoal[Any]:
    """The task of a recipe; GLUE's tasks know themselves what they are."""
    if not recipe.glue:
        return GOALS[recipe.task](recipe)
    if recipe.glue not in GLUE:
        raise UserError(f"GLUE has no task {recipe.glue!r}", hint=nearest(recipe.glue, GLUE))
    return ClassGoal(recipe) if GLUE[recipe.glue].labels else NumberGoal(recipe)


def task_of_head(head: str, classes: int) -> TextTaskName | None:
    """What a model with this head was trained for, as far as the head tells."""
    if head == NumberGoal.head and classes == 1:
        return "number"
    return next((task for task, goal in GOALS.items() if goal.head == head), None)
