"""Evaluates the best weights of a run on its test set, which training never reads."""

from patchword.core.files import write_json
from patchword.recipes.kinds import kind_of
from patchword.recipes.recipe_kind import Evaluation
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe


def evaluate(run: Run, device: str = "auto") -> Evaluation:
    """Evaluate a run on the data of its own recipe, and write the result to evaluation.json unless it is read-only."""
    found = evaluated(run, run.recipe(), device)
    if not run.is_read_only:
        write_json(run.folder / "evaluation.json", found.summary())
    return found


def evaluated(run: Run, recipe: Recipe, device: str = "auto") -> Evaluation:
    """Evaluate the run's weights on the data of a recipe, which may be another than its own."""
    return kind_of(recipe).evaluate(run, recipe, device)
