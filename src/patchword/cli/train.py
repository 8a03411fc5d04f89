"""train: from a recipe to a run."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Runs, console, finish

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.recipes import Recipe, Study


def train(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe's or a study's name, a YAML file, or a run's folder.")
    ],
    fields: Annotated[list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="Fields to change.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="A field to change; can be repeated.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The run's name; by default the recipe's.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run of that name, if it has begun.")] = False,
    runs: Runs = Path("runs"),
) -> None:
    """Train a recipe, evaluate the best weights on the test set once, and write the report.

    A study trains several recipes that differ in one thing, and brings them into one table and one picture.

    Examples:  patchword train fashion-mnist-vit  |  patchword train fashion-mnist-vit --set epochs=5 model.depth=6
    |  patchword train image-folder-vit --set data=my/pictures  |  patchword train fashion-mnist-families
    """
    from patchword.recipes import STUDIES, find_recipe
    from patchword.recipes.recipe import read_recipe

    changes, out = [*(settings or []), *(fields or [])], console()
    if recipe in STUDIES:
        folder = runs / (name or recipe)
        again = ["patchword", "train", recipe, *changes, "--name", folder.name, "--runs", str(runs), "--resume"]
        try:
            _study(STUDIES[recipe]().with_settings(changes), folder, out, resume)
        except (typer.Exit, KeyboardInterrupt):
            out.print(f"\nthe whole study goes on with:\n  {shlex.join(again)}", highlight=False, markup=False)
            raise typer.Exit(130) from None
        return
    file = Path(recipe) / "recipe.yaml" if (Path(recipe) / "recipe.yaml").is_file() else Path(recipe)
    base = read_recipe(file) if file.suffix in (".yaml", ".yml") else find_recipe(recipe)
    chosen = base.with_settings(changes)
    folder = runs / (name or (file.absolute().parent.name if file.name == "recipe.yaml" else file.stem))
    if chosen == base and base.expect.time:
        out.print(f"{folder.name} takes {base.expect.time}", highlight=False, markup=False)
    _run(chosen, folder, out, resume)


def _run(recipe: "Recipe", folder: Path, out: "Console", resume: bool) -> None:
    from patchword.recipes.run import Run
    from patchword.recipes.train import train as run_recipe

    if not run_recipe(recipe, folder, out, resume):
        place = ["--name", folder.name, "--runs", folder.parent]
        words = ["patchword", "train", folder / "recipe.yaml", *place, "--resume"]
        again = shlex.join(str(word) for word in words)
        out.print(f"\nstopped; everything is saved. Go on with:\n  {again}", highlight=False, markup=False)
        raise typer.Exit(130)
    finish(Run(folder), out, recipe.device)


def _study(study: "Study", folder: Path, out: "Console", resume: bool) -> None:
    """Each run in its own folder; with `resume`, runs that are done are not repeated."""
    from patchword.recipes.study import results
    from patchword.reports.study import print_results, write_results

    study.check(folder)
    out.print(f"{study.about} {len(study.runs)} runs; {study.time}.", highlight=False, markup=False)
    for number, (label, recipe) in enumerate(study.runs.items(), 1):
        done = (folder / label / "evaluation.json").is_file()
        out.print(f"\n[bold]{number} of {len(study.runs)}: {label}[/bold]{' (done)' if done else ''}", highlight=False)
        if not (done and resume):
            _run(recipe, folder / label, out, resume)
    rows = results(study, folder)
    print_results(rows, console(120))
    for path in write_results(study.about, rows, folder):
        out.print(str(path), highlight=False, markup=False)
