"""train: from a recipe to a run."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from patchword.cli.common import Runs, console, finish


def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's name, a YAML file, or a run's folder.")],
    fields: Annotated[list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="Fields to change.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="A field to change; can be repeated.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The run's name; by default the recipe's.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run of that name, if it has begun.")] = False,
    runs: Runs = Path("runs"),
) -> None:
    """Train a recipe, evaluate the best weights on the test set once, and write the report.

    Examples:  patchword train fashion-mnist-vit  |  patchword train fashion-mnist-vit --set epochs=5 model.depth=6
    |  patchword train image-folder-vit --set data=my/pictures
    """
    from patchword.recipes import find_recipe
    from patchword.recipes.recipe import read_recipe
    from patchword.recipes.run import Run
    from patchword.recipes.train import train as run_recipe

    file = Path(recipe) / "recipe.yaml" if (Path(recipe) / "recipe.yaml").is_file() else Path(recipe)
    base = read_recipe(file) if file.suffix in (".yaml", ".yml") else find_recipe(recipe)
    chosen = base.with_settings([*(settings or []), *(fields or [])])
    folder = runs / (name or (file.absolute().parent.name if file.name == "recipe.yaml" else file.stem))
    out = console()
    if chosen == base and base.expect.time:
        out.print(f"{folder.name} takes {base.expect.time}", highlight=False, markup=False)
    if not run_recipe(chosen, folder, out, resume):
        words = ["patchword", "train", folder / "recipe.yaml", "--name", folder.name, "--runs", runs, "--resume"]
        again = shlex.join(str(word) for word in words)
        out.print(f"\nstopped; everything is saved. Go on with:\n  {again}", highlight=False, markup=False)
        raise typer.Exit(130)
    finish(Run(folder), out, chosen.device)
