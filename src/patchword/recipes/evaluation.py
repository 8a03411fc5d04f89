"""Evaluates the best weights of a run on its test set, which training never reads."""

from patchword.core.files import write_json
from patchword.recipes.kinds import kind_of
from patchword.recipes.recipe_kind import Evaluation
from patchword.recipes.results.mistakes import save_mistakes
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe


def evaluate(run: Run, device: str = "auto") -> Evaluation:
    """Evaluate a run on the data of its own recipe, and save the result unless the run is read-only.

    evaluation.json has the result, mistakes.json the most confident wrong predictions of a classifier.
    """
    found = evaluated(run, run.recipe(), device)
    if not run.is_read_only:
        save_mistakes(found, run.folder)
        write_json(run.folder / "evaluation.json", found.summary())
    return found


def evaluated(run: Run, recipe: Recipe, device: str = "auto") -> Evaluation:
    """Evaluate the run's weights on the data of a recipe, which may be another than its own."""
    return kind_of(recipe).evaluate(run, recipe, device)
