"""Evaluates the best weights of a run on its test set, which training never reads."""

from patchword.core.errors import UserError
from patchword.core.files import write_json
from patchword.recipes.kinds import kind_of
from patchword.recipes.recipe_kind import Evaluation
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe


def evaluate(run: Run, device: str = "auto") -> Evaluation:
    """Evaluate a run on the data of its own recipe, and write the result to evaluation.json."""
    found = evaluated(run, run.recipe(), device)
    write_json(run.folder / "evaluation.json", found.summary())
    return found


def evaluated(run: Run, recipe: Recipe, device: str = "auto") -> Evaluation:
    """Evaluate the run's weights on the data of a recipe, which may be another than its own."""
    kind = kind_of(recipe)
    if not kind.evaluates_other_data and recipe != run.recipe():
        raise UserError(f"a run of {kind.name} is evaluated on its own test set", hint="leave the fields out")
    return kind.evaluate(run, recipe, device)
