"""Runs of one recipe with several seeds, which show how much of a result is chance."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from patchword.core.errors import UserError
from patchword.recipes.schema.recipe import Recipe
from patchword.studies.spread import Spread
from patchword.studies.study import Result, Study, filled


def over_seeds(name: str, recipe: Recipe, count: int) -> Study:
    """Return a study with the runs seed-0, seed-1, ..., which starts at the recipe's seed."""
    if count < 1:
        raise UserError("--seeds", expected="1 or more", got=count)
    seeds = range(recipe.seed, recipe.seed + count)
    runs = {f"seed-{seed}": recipe.with_settings([f"seed={seed}"]) for seed in seeds}
    each = f"each {recipe.expect.time}" if recipe.expect.time else "each as long as one run"
    return Study(f"{name} from {count} {'seed' if count == 1 else 'seeds'}.", each, runs)


def study_over_seeds(study: Study, count: int) -> Study:
    """Return the study with every run repeated for several seeds, as NAME-seed-0 and so on.

    A run that uses an earlier run uses that of its own repetition, so the repetitions are independent.
    """
    if count < 1:
        raise UserError("--seeds", expected="1 or more", got=count)
    if any("-seed-" in label for label in study.runs):
        raise UserError("--seeds", expected="a recipe, or a study of single runs", got="a study that has seeds already")
    names = [{label: f"{label}-seed-{run.seed + k}" for label, run in study.runs.items()} for k in range(count)]
    runs = {
        names[k][label]: filled(
            recipe.with_settings([f"seed={recipe.seed + k}"]), {run: f"{{{name}}}" for run, name in names[k].items()}
        )
        for label, recipe in study.runs.items()
        for k in range(count)
    }
    return replace(study, runs=runs)


def check_seeds_folder(folder: Path) -> None:
    """Raise an error if the folder for several runs is itself a run."""
    if (folder / "recipe.yaml").is_file():
        raise UserError(f"{folder} holds a single run already", hint="give these runs another --name")


def spreads(results: Sequence[Result]) -> dict[str, Spread]:
    """Return the spread of every measure that all runs have, and of the loss.

    Runs of older versions have fewer measures.
    """
    common = [name for name in results[0].measures if all(name in result.measures for result in results)]
    values = {name: [result.measures[name] for result in results] for name in common}
    return {name: Spread.of(found) for name, found in {**values, "loss": [result.loss for result in results]}.items()}
