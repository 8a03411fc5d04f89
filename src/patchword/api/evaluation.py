"""evaluate: evaluates a run on its test set, or on other data."""

from pathlib import Path

from rich.console import Console

from patchword.api.results import EvaluationResult, result_of
from patchword.api.run import Run
from patchword.recipes import evaluation as recipes_evaluation
from patchword.recipes.recipe_kind import Evaluation
from patchword.recipes.run import Run as RecipesRun
from patchword.recipes.schema.fields import check_device
from patchword.reports import write_report
from patchword.reports.run.kinds import result_lines
from patchword.training.console import run_console


def evaluate(run: RecipesRun | str | Path, *, device: str = "auto", **fields: object) -> EvaluationResult:
    """Evaluate the best weights of a run on its test set, save the result, and update the report.

    With fields such as `test=FILE` or `data=FOLDER` the run is evaluated on other data; its saved result and its report
    stay unchanged.

    Args:
        run: a run, its folder, or its name inside `runs`.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1" or "mps".
        fields: fields of the recipe to change.

    >>> patchword.evaluate("runs/pets", data="other/photos").score
    """
    found = run if isinstance(run, RecipesRun) else Run(run)
    recipe = found.recipe()
    check_device(device)
    if fields:
        result = recipes_evaluation.evaluated(found, recipe.with_values(fields), device)
    else:
        result = finish(found, run_console(quiet=True), device)
    return result_of(recipe.kind, result.summary())


def finish(run: RecipesRun, console: Console, device: str = "auto") -> Evaluation:
    """Evaluate a run on its test set, print the result and write the report; a model of the zoo gets no report."""
    found = recipes_evaluation.evaluate(run, device)
    console.print()
    for line in result_lines(found):
        console.print(line, highlight=False, markup=False)
    if run.is_read_only:
        return found
    report = write_report(run, found)
    console.print(f"\nreport: {report}", highlight=False, markup=False)
    return found
