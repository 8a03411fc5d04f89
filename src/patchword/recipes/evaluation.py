"""Evaluates the best weights of a run on its test set, which training never reads."""

from patchword.core.files import write_json
from patchword.recipes.kinds import kind_of
from patchword.recipes.recipe_kind import Evaluation
from patchword.recipes.results.mistakes import save_mistakes
from patchword.recipes.run import Run
from patchword.recipes.run_folders.records import EVALUATION
from patchword.recipes.run_folders.samples import check_evaluated
from patchword.recipes.run_folders.sealing import results_of, sealed_weights
from patchword.recipes.schema.recipe import Recipe


def evaluate(run: Run, device: str = "auto") -> Evaluation:
    """Evaluate a run on the data of its own recipe, and save the result unless the run is read-only.

    evaluation.json has the result, mistakes.json the most confident wrong predictions of a classifier.
    """
    if run.is_read_only:
        return evaluated(run, run.recipe(), device)
    weights, recipe = sealed_weights(run.folder), run.recipe()
    check_evaluated(recipe, run.folder)
    found = evaluated(run, recipe, device)
    with results_of(run.folder, weights) as files:
        save_mistakes(found, files)
        write_json(files / EVALUATION, found.summary())
    return found


def evaluated(run: Run, recipe: Recipe, device: str = "auto") -> Evaluation:
    """Evaluate the run's weights on the data of a recipe, which may be another than its own."""
    return kind_of(recipe).evaluate(run, recipe, device)
